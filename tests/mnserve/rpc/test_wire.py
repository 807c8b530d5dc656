"""Counting elements on the wire, against protobuf's own parser."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.wire import ElementLimits, NotAMessageError, WireShape, first_excess

SHAPE = WireShape.of(pb.ModelInferRequest.DESCRIPTOR)
ENDLESS = ElementLimits(fields=10**9, values=10**9, numbers=10**9, texts=10**9)


KINDS = ("fields", "values", "numbers", "texts")


def text_bytes(message: Any) -> int:
    """Counts the bytes of all texts that a message holds itself."""
    texts = [value for field, value in message.ListFields() if field.type == field.TYPE_STRING]
    return sum(len(text.encode()) for text in texts)


def elements(message: Any) -> Counter[str]:
    """Counts what a message has when it is written as protobuf writes it."""
    counts: Counter[str] = Counter(texts=text_bytes(message))
    kind = "values" if isinstance(message, pb.InferTensorContents) else "fields"
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key, entry in value.items():
                counts += Counter(fields=3, texts=len(key.encode())) + elements(entry)
        elif field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                counts += Counter(fields=1) + elements(one)
        elif field.is_repeated and field.type not in (field.TYPE_STRING, field.TYPE_BYTES):
            of_varints = field.type not in (field.TYPE_FLOAT, field.TYPE_DOUBLE)
            counts += Counter({kind: 1, "numbers": len(value) if of_varints else 0})
        else:
            counts[kind] += len(value) if field.is_repeated else 1
    return counts


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


parameters = st.dictionaries(
    st.text(max_size=3),
    st.one_of(
        st.builds(pb.InferParameter, int64_param=st.integers(-(2**63), 2**63 - 1)),
        st.builds(pb.InferParameter, string_param=st.text(max_size=200)),
        st.builds(pb.InferParameter),
    ),
    max_size=4,
)
contents = st.builds(
    pb.InferTensorContents,
    bool_contents=st.lists(st.booleans(), max_size=4),
    int_contents=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
    uint64_contents=st.lists(st.integers(0, 2**64 - 1), max_size=4),
    fp32_contents=st.lists(st.floats(width=32), max_size=4),
    fp64_contents=st.lists(st.floats(), max_size=40),
    bytes_contents=st.lists(st.binary(max_size=3), max_size=4),
)
requests = st.builds(
    pb.ModelInferRequest,
    model_name=st.text(max_size=200),
    parameters=parameters,
    inputs=st.lists(
        st.builds(
            pb.ModelInferRequest.InferInputTensor,
            name=st.text(max_size=3),
            shape=st.lists(st.integers(-1, 2**40), max_size=4),
            parameters=parameters,
            contents=contents,
        ),
        max_size=4,
    ),
    outputs=st.lists(
        st.builds(pb.ModelInferRequest.InferRequestedOutputTensor, name=st.text(max_size=3), parameters=parameters),
        max_size=4,
    ),
    raw_input_contents=st.lists(st.binary(max_size=300), max_size=4),
)


def written(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Fields with numbers of the protocol, of any kind, that hold anything; groups too."""
    fields = st.one_of(
        st.tuples(st.integers(0, 9), st.just(0), st.integers(0, 2**70).map(varint)),
        st.tuples(st.integers(0, 9), st.just(1), st.binary(min_size=8, max_size=8)),
        st.tuples(st.integers(0, 9), st.just(2), inner.map(lambda data: varint(len(data)) + data)),
        st.tuples(st.integers(0, 9), st.just(5), st.binary(min_size=4, max_size=4)),
        st.tuples(st.integers(0, 9), st.sampled_from((3, 4, 6, 7)), st.just(b"")),
    ).map(lambda field: varint(field[0] << 3 | field[1]) + field[2])
    groups = st.tuples(st.integers(1, 9), inner).map(
        lambda group: bytes([group[0] << 3 | 3, *group[1], group[0] << 3 | 4])
    )
    return st.lists(fields | groups, max_size=5).map(b"".join)


wire = st.recursive(st.binary(max_size=6), written, max_leaves=12)


@given(requests, st.data())
def test_elements_of_a_message_are_counted(request: pb.ModelInferRequest, data: st.DataObject) -> None:
    message, counts = request.SerializeToString(), elements(request)
    exact = ElementLimits(**{kind: counts[kind] for kind in KINDS})
    assert first_excess(message, SHAPE, exact) is None
    for kind in KINDS:
        if counts[kind]:
            below = replace(exact, **{kind: data.draw(st.integers(0, counts[kind] - 1))})
            assert first_excess(message, SHAPE, below) == kind


@given(wire | st.tuples(requests, st.integers(0, 200), st.binary(max_size=3)).map(
    lambda parts: parts[0].SerializeToString()[: parts[1]] + parts[2] + parts[0].SerializeToString()[parts[1] :]
))  # fmt: skip
def test_what_protobuf_parses_is_counted_in_full(data: bytes) -> None:
    try:
        parsed = pb.ModelInferRequest.FromString(data)
    except DecodeError:
        with_limits = replace(ENDLESS, fields=3)
        with contextlib.suppress(NotAMessageError):
            assert first_excess(data, SHAPE, with_limits) in (None, "fields")
        return
    assert first_excess(data, SHAPE, ENDLESS) is None
    counts = elements(parsed)
    # On the wire an entry of a map may lack its key and value, and what is packed here may have a field each there.
    if counts["fields"] > 3:
        assert first_excess(data, SHAPE, replace(ENDLESS, fields=counts["fields"] // 3 - 1)) == "fields"
    if counts["numbers"]:
        most = (counts["numbers"] - 1) // 3
        few = ElementLimits(fields=most, values=most, numbers=most, texts=10**9)
        assert first_excess(data, SHAPE, few) is not None
    # What a message knows no field of is kept beside its fields.
    assert counts["texts"] <= len(data)
    if counts["texts"]:
        assert first_excess(data, SHAPE, replace(ENDLESS, texts=counts["texts"] - 1)) == "texts"


def test_packed_numbers_are_counted_in_pieces() -> None:
    request = pb.ModelInferRequest()
    request.inputs.add().contents.int64_contents.extend([2**62] * 300_000)
    message = request.SerializeToString()
    assert len(message) > 2 * 2**20
    assert first_excess(message, SHAPE, replace(ENDLESS, numbers=300_000)) is None
    assert first_excess(message, SHAPE, replace(ENDLESS, numbers=299_999)) == "numbers"


@pytest.mark.parametrize("data", [b"\x80", b"\x2a\x05\x00", b"\x2a", b"\x09\x00", b"\x0d\x00", b"\x07", b"\x2c"])
def test_bytes_that_are_no_message_are_told(data: bytes) -> None:
    with pytest.raises(NotAMessageError):
        first_excess(data, SHAPE, ENDLESS)
