"""Answers of an engine process: small ones out of their record, larger ones out of shared memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mnserve.channel.link import Link
from mnserve.channel.records import (
    ANSWER_REST,
    CACHED,
    INLINE,
    LAYOUT_REST,
    RELEASE,
    DamagedRecordsError,
    pack_number,
    unpack_answer,
    unpack_layout,
)
from mnserve.codec.packed_tensors import PackedTensors
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.engine_links.front_end_link import STRING_BYTES
from mnserve.engine_links.layouts import HeardLayouts, parse_answer_layout
from mnserve.errors import EngineLostError
from mnserve.execution.results import NO_TIMES, BatchTimes, InferenceResult

Array: TypeAlias = np.ndarray[Any, Any]


class IncomingAnswers:
    """Reads the answers of one link, and gives their places back.

    Args:
        link: The link.
        payloads: Memory that the engine process writes.
        ended: Ends the request of a ticket, and returns the future of its result.
    """

    def __init__(
        self, link: Link, payloads: memoryview, ended: Callable[[int], asyncio.Future[InferenceResult]]
    ) -> None:
        self._link = link
        self._payloads = payloads
        self._ended = ended
        self._layouts: HeardLayouts[PackedTensors] = HeardLayouts()
        self._times: BatchTimes = NO_TIMES
        self._tasks: set[asyncio.Task[None]] = set()

    def take_layout(self, buffer: bytes, start: int, end: int) -> None:
        """Takes a record ANSWER_LAYOUT.

        Raises:
            DamagedRecordsError: It makes no sense.
        """
        self._layouts.add(unpack_layout(buffer, start)[0], parse_answer_layout(buffer[start + LAYOUT_REST : end]))

    def take(self, buffer: bytes, start: int, end: int) -> None:
        """Takes a record ANSWER.

        Raises:
            DamagedRecordsError: It makes no sense.
        """
        (ticket, number, flags, queue_ns, input_ns, infer_ns, output_ns, lookup_ns, place, nbytes) = unpack_answer(
            buffer, start
        )
        layout = self._layouts.get(number)
        inline = flags & INLINE
        if nbytes != end - start - ANSWER_REST if inline else place + nbytes > len(self._payloads):
            raise DamagedRecordsError(f"the answer of request {ticket} claims {nbytes} bytes at {place}")
        times = self._times
        if infer_ns != times.infer_ns or input_ns != times.input_ns or output_ns != times.output_ns:
            times = self._times = BatchTimes(input_ns=input_ns, infer_ns=infer_ns, output_ns=output_ns)
        result = InferenceResult([], queue_ns, times, lookup_ns, flags & CACHED != 0)
        future = self._ended(ticket)
        if inline:
            payload = buffer[start + ANSWER_REST : end]
        elif nbytes > (STRING_BYTES if layout.nbytes is None else INLINE_BYTES):
            task = asyncio.get_running_loop().create_task(self._take_later(future, result, layout, place, nbytes))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        else:
            payload = bytes(self._payloads[place : place + nbytes])
            self._link.send(pack_number(RELEASE, place))
        if not future.done():
            try:
                result.arrays.extend(layout.unpack(payload))
            except ValueError as error:
                future.set_exception(_damaged(error))
                raise DamagedRecordsError(f"the answer of request {ticket}: {error}") from None
            future.set_result(result)

    def close(self) -> None:
        """Gives the memory up; answers that are being taken in a thread are still taken."""
        self._payloads = memoryview(b"")

    async def _take_later(
        self,
        future: asyncio.Future[InferenceResult],
        result: InferenceResult,
        layout: PackedTensors,
        place: int,
        nbytes: int,
    ) -> None:
        """Takes a large answer in a thread."""
        payload = self._payloads[place : place + nbytes]
        try:
            if not future.done():
                result.arrays.extend(await asyncio.to_thread(_unpacked, layout, payload))
        except ValueError as error:
            if not future.done():
                future.set_exception(_damaged(error))
            self._link.close(f"an answer is damaged ({error})")
            return
        self._link.send(pack_number(RELEASE, place))
        if not future.done():
            future.set_result(result)


def _damaged(error: ValueError) -> EngineLostError:
    return EngineLostError(f"the engine process sent a damaged answer ({error}); try again later")


def _unpacked(layout: PackedTensors, payload: memoryview) -> list[Array]:
    return layout.unpack(bytes(payload))
