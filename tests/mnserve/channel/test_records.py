"""Records: the same however the stream was cut; damaged ones are refused."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnserve.channel import records
from mnserve.channel.records import (
    ANSWER_REST,
    FAIL_REST,
    LAYOUT_REST,
    MAX_RECORD_BYTES,
    SUBMIT_REST,
    Answer,
    DamagedRecordsError,
    RecordReader,
    Submit,
    pack_admitted,
    pack_answer,
    pack_fail,
    pack_layout,
    pack_number,
    pack_submit,
)

NUMBERS = st.integers(0, 2**64 - 1)
SHORT = st.integers(0, 2**32 - 1)
TIMES = st.integers(-(2**63), 2**63 - 1)
BYTES = st.binary(max_size=40)
SUBMITS = st.builds(
    Submit, NUMBERS, SHORT, SHORT, SHORT, st.integers(0, 255), st.floats(allow_nan=False), st.just(0.5), NUMBERS, SHORT
)
ANSWERS = st.builds(Answer, NUMBERS, SHORT, st.integers(0, 255), TIMES, TIMES, TIMES, TIMES, TIMES, NUMBERS, SHORT)
ANY = st.one_of(
    st.builds(pack_submit, SUBMITS, BYTES),
    st.builds(pack_answer, ANSWERS, BYTES),
    st.builds(pack_number, st.sampled_from([records.CANCEL, records.RELEASE, records.FREED]), NUMBERS),
    st.builds(pack_admitted, NUMBERS, NUMBERS),
    st.builds(pack_layout, st.sampled_from([records.LAYOUT, records.ANSWER_LAYOUT]), SHORT, BYTES),
    st.builds(pack_fail, NUMBERS, st.integers(0, 255), BYTES),
)


class Collected:
    """Records as they came, packed again."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.reader = RecordReader(self._take)

    def _take(self, kind: int, buffer: bytes, start: int, end: int) -> None:
        self.records.append(struct.pack("<IB", end - start + 1, kind) + buffer[start:end])


@settings(max_examples=80, deadline=None)
@given(st.lists(ANY, max_size=8), st.lists(st.integers(0, 700), max_size=12))
def test_records_are_the_same_however_the_stream_is_cut(sent: list[bytes], cuts: list[int]) -> None:
    stream, collected, start = b"".join(sent), Collected(), 0
    for cut in sorted(cut for cut in cuts if cut < len(stream)):
        collected.reader.feed(stream[start:cut])
        start = cut
    collected.reader.feed(stream[start:])
    assert collected.records == sent


def test_records_are_the_same_byte_by_byte_and_for_every_cut() -> None:
    sent = [pack_number(records.CANCEL, 7), pack_layout(records.LAYOUT, 1, b"{}"), pack_number(records.CANCEL, 8)]
    stream, collected = b"".join(sent), Collected()
    for byte in stream:
        collected.reader.feed(bytes([byte]))
    assert collected.records == sent
    for cut in range(len(stream)):
        collected = Collected()
        collected.reader.feed(stream[:cut])
        collected.reader.feed(stream[cut:])
        assert collected.records == sent


@given(SUBMITS, ANSWERS, BYTES)
@settings(max_examples=40, deadline=None)
def test_what_was_packed_is_unpacked(submit: Submit, answer: Answer, payload: bytes) -> None:
    record = pack_submit(submit, payload)
    assert Submit(*records.unpack_submit(record, 5)) == submit
    assert record[5 + SUBMIT_REST :] == payload
    record = pack_answer(answer, payload)
    assert Answer(*records.unpack_answer(record, 5)) == answer
    assert record[5 + ANSWER_REST :] == payload


def test_the_other_records_have_their_parts_where_they_say() -> None:
    fail, layout = pack_fail(9, records.HELD, b"{}"), pack_layout(records.LAYOUT, 3, b"[]")
    assert (records.unpack_fail(fail, 5), fail[5 + FAIL_REST :]) == ((9, records.HELD), b"{}")
    assert (records.unpack_layout(layout, 5), layout[5 + LAYOUT_REST :]) == ((3,), b"[]")
    assert records.unpack_admitted(pack_admitted(4, 5), 5) == (4, 5)
    assert records.unpack_number(pack_number(records.FREED, 6), 5) == (6,)
    assert math.isinf(records.unpack_submit(pack_submit(Submit(1, 2, 3, 4, 5, math.inf, 0.0, 6, 7)), 5)[5])


@pytest.mark.parametrize(
    "damaged",
    [
        struct.pack("<IB", 0, records.CANCEL),
        struct.pack("<IB", 8, records.CANCEL),
        struct.pack("<IB", 2**32 - 1, records.SUBMIT),
        struct.pack("<IB", MAX_RECORD_BYTES + 1, records.LAYOUT),
        struct.pack("<IB", SUBMIT_REST, records.SUBMIT),
        struct.pack("<IB", ANSWER_REST, records.ANSWER),
        struct.pack("<IB", 9, 99),
        b"\0" * 5,
    ],
)
def test_damaged_lengths_and_kinds_are_refused(damaged: bytes) -> None:
    collected = Collected()
    with pytest.raises(DamagedRecordsError, match="claims"):
        collected.reader.feed(pack_number(records.CANCEL, 7) + damaged + b"\0" * 20)
    assert len(collected.records) == 1


def test_a_long_record_is_joined_once_it_is_whole() -> None:
    record, collected = pack_layout(records.LAYOUT, 1, b"x" * 2**22), Collected()
    for start in range(0, len(record), 2**16):
        collected.reader.feed(record[start : start + 2**16])
    assert collected.records == [record]
