"""Records of the channel: a stream of packed structs, little-endian, each behind its length.

::

    u32 length   u8 kind   fixed part   rest of length - 1 - fixed bytes

    front end -> engine process                            rest
    LAYOUT    layout u32                                   JSON
    SUBMIT    fields of Submit                             payload, if flags have INLINE
    CANCEL    ticket u64
    RELEASE   place u64 of an answer

    engine process -> front end
    ADMITTED  ticket u64, nbytes u64
    ANSWER_LAYOUT  layout u32                              JSON
    ANSWER    fields of Answer                             payload, if flags have INLINE
    FAIL      ticket u64, flags u8                         JSON, see mnserve.channel.wire_errors
    FREED     ticket u64

Exactly one ANSWER or FAIL ends a ticket, also after CANCEL, and frees the place of the request. A FAIL with HELD leaves
the place to be read on by an engine until FREED. Times are seconds on CLOCK_MONOTONIC, which processes have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

LAYOUT: Final = 1
SUBMIT: Final = 2
CANCEL: Final = 3
RELEASE: Final = 4
ADMITTED: Final = 16
ANSWER_LAYOUT: Final = 17
ANSWER: Final = 18
FAIL: Final = 19
FREED: Final = 20

INLINE: Final = 1
"""The payload follows in the record; otherwise it lies in the sender's shared memory."""
STREAMED: Final = 2
"""Of SUBMIT: the request waits for room in the queue, and hears of its admission."""
DELAY_LATE: Final = 4
"""Of SUBMIT: after ``max_wait`` it goes behind the others, instead of being refused."""
CACHED: Final = 2
"""Of ANSWER: it comes from the response cache."""
HELD: Final = 1
"""Of FAIL: an engine may still read the place of the request."""

INLINE_PAYLOAD: Final = 2048
"""Largest payload in bytes that travels in its record."""
MAX_RECORD_BYTES: Final = 2**24
"""Longest record; a longer length is a damaged one."""


class Submit(NamedTuple):
    """Fixed part of a request.

    Attributes:
        ticket: Number of the request, never used twice on a link.
        endpoint: Number of the served version.
        layout: Number of the layout, which was sent before.
        level: Priority level.
        flags: INLINE, STREAMED and DELAY_LATE.
        deadline: Time at which the caller's time is up, in seconds; infinity for no limit.
        max_wait: Seconds that it may wait in the queue; 0 for no limit.
        place: Offset of the payload in the front end's memory.
        nbytes: Bytes of the payload.
    """

    ticket: int
    endpoint: int
    layout: int
    level: int
    flags: int
    deadline: float
    max_wait: float
    place: int
    nbytes: int


class Answer(NamedTuple):
    """Fixed part of an answer; durations are in nanoseconds.

    Attributes:
        ticket: Number of the request.
        layout: Number of the layout of its outputs, which was sent before.
        flags: INLINE and CACHED.
        queue_ns: Time in the queue.
        input_ns: Joining of the batch.
        infer_ns: Run of the engine.
        output_ns: Splitting of the batch.
        lookup_ns: Search in the response cache.
        place: Offset of the payload in the engine process's memory.
        nbytes: Bytes of the payload.
    """

    ticket: int
    layout: int
    flags: int
    queue_ns: int
    input_ns: int
    infer_ns: int
    output_ns: int
    lookup_ns: int
    place: int
    nbytes: int


_HEAD: Final = Struct("<IB")
_SUBMIT: Final = Struct("<IBQIIIBddQQ")
_ANSWER: Final = Struct("<IBQIBqqqqqQQ")
_NUMBER: Final = Struct("<IBQ")
_ADMITTED: Final = Struct("<IBQQ")
_LAYOUT: Final = Struct("<IBI")
_FAIL: Final = Struct("<IBQB")
_PREFIX: Final = 4
_SHORTEST: Final = {
    LAYOUT: _LAYOUT.size - _PREFIX,
    SUBMIT: _SUBMIT.size - _PREFIX,
    CANCEL: _NUMBER.size - _PREFIX,
    RELEASE: _NUMBER.size - _PREFIX,
    ADMITTED: _ADMITTED.size - _PREFIX,
    ANSWER_LAYOUT: _LAYOUT.size - _PREFIX,
    ANSWER: _ANSWER.size - _PREFIX,
    FAIL: _FAIL.size - _PREFIX,
    FREED: _NUMBER.size - _PREFIX,
}
"""Kind -> shortest length."""

unpack_submit: Final = Struct("<QIIIBddQQ").unpack_from
"""Reads the values of a Submit, as a plain tuple, at a position of a buffer."""
unpack_answer: Final = Struct("<QIBqqqqqQQ").unpack_from
"""Reads the values of an Answer, as a plain tuple, at a position of a buffer."""
unpack_number: Final = Struct("<Q").unpack_from
"""Reads the ticket of CANCEL and FREED, or the place of RELEASE."""
unpack_admitted: Final = Struct("<QQ").unpack_from
"""Reads the ticket and the bytes of ADMITTED."""
unpack_layout: Final = Struct("<I").unpack_from
"""Reads the number of LAYOUT and ANSWER_LAYOUT."""
unpack_fail: Final = Struct("<QB").unpack_from
"""Reads the ticket and the flags of FAIL."""
SUBMIT_REST: Final = _SUBMIT.size - _HEAD.size
"""Bytes of the fixed part of SUBMIT."""
ANSWER_REST: Final = _ANSWER.size - _HEAD.size
"""The same of ANSWER."""
LAYOUT_REST: Final = _LAYOUT.size - _HEAD.size
"""The same of LAYOUT and ANSWER_LAYOUT."""
FAIL_REST: Final = _FAIL.size - _HEAD.size
"""The same of FAIL."""


class DamagedRecordsError(Exception):
    """The stream of records makes no sense; the link cannot go on."""


def pack_submit(submit: Submit, payload: bytes = b"") -> bytes:
    """Packs a request, with its payload if that is INLINE."""
    return _SUBMIT.pack(_SUBMIT.size - _PREFIX + len(payload), SUBMIT, *submit) + payload


def pack_answer(answer: Answer, payload: bytes = b"") -> bytes:
    """Packs an answer, with its payload if that is INLINE."""
    return _ANSWER.pack(_ANSWER.size - _PREFIX + len(payload), ANSWER, *answer) + payload


def pack_number(kind: int, number: int) -> bytes:
    """Packs CANCEL, RELEASE or FREED."""
    return _NUMBER.pack(_NUMBER.size - _PREFIX, kind, number)


def pack_admitted(ticket: int, nbytes: int) -> bytes:
    """Packs the news that a request is in the queue, with so many bytes."""
    return _ADMITTED.pack(_ADMITTED.size - _PREFIX, ADMITTED, ticket, nbytes)


def pack_layout(kind: int, number: int, text: bytes) -> bytes:
    """Packs LAYOUT or ANSWER_LAYOUT with its JSON."""
    return _LAYOUT.pack(_LAYOUT.size - _PREFIX + len(text), kind, number) + text


def pack_fail(ticket: int, flags: int, text: bytes) -> bytes:
    """Packs the end of a request without an answer, with the JSON of the error."""
    return _FAIL.pack(_FAIL.size - _PREFIX + len(text), FAIL, ticket, flags) + text


OnRecord: TypeAlias = Callable[[int, bytes, int, int], None]
"""Takes a record: its kind, a buffer, and the positions at which its fixed part starts and its rest ends."""


class RecordReader:
    """Splits a stream into records, however it was cut.

    Args:
        on_record: Takes each record.
    """

    def __init__(self, on_record: OnRecord) -> None:
        self._on_record = on_record
        self._parts: list[bytes] = []
        self._missing = 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the stream.

        Raises:
            DamagedRecordsError: A length or a kind makes no sense.
        """
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        position, end, on_record = 0, len(data), self._on_record
        while end - position >= _HEAD.size:
            length, kind = _HEAD.unpack_from(data, position)
            if not _SHORTEST.get(kind, MAX_RECORD_BYTES) <= length <= MAX_RECORD_BYTES:
                raise DamagedRecordsError(f"a record of kind {kind} claims {length} bytes")
            after = position + _PREFIX + length
            if after > end:
                self._missing = after - end
                break
            on_record(kind, data, position + _HEAD.size, after)
            position = after
        else:
            self._missing = 1
        if position < end:
            self._parts.append(data[position:])
