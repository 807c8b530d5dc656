"""Counting fields on the wire."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.wire import has_more_fields


@given(inputs=st.integers(0, 20), raws=st.lists(st.binary(max_size=300), max_size=20), limit=st.integers(0, 45))
def test_fields_of_a_message_are_counted(inputs: int, raws: list[bytes], limit: int) -> None:
    message = pb.ModelInferRequest(model_name="m" * 200, raw_input_contents=raws)
    for number in range(inputs):
        message.inputs.add(name="x" * number, shape=[1, 2**40])
    assert has_more_fields(message.SerializeToString(), limit) is (1 + inputs + len(raws) > limit)


def test_every_kind_of_field_is_counted() -> None:
    kinds = b"\x08\xff\x01" + b"\x11" + bytes(8) + b"\x1a\x02ab" + b"\x25" + bytes(4) + b"\x2b\x2c"
    assert has_more_fields(kinds, 5)
    assert not has_more_fields(kinds, 6)


@given(st.binary(max_size=50))
def test_any_bytes_are_counted_without_an_error(data: bytes) -> None:
    assert not has_more_fields(data, 50)
