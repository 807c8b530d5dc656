"""Link to one engine process: requests go out, and their outcomes come back."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable
from typing import Final

from mnserve.batching.request_limits import RequestLimits
from mnserve.channel.arena import Arena
from mnserve.channel.link import Link
from mnserve.channel.records import (
    ADMITTED,
    ANSWER,
    ANSWER_LAYOUT,
    CANCEL,
    DELAY_LATE,
    FAIL,
    FAIL_REST,
    FREED,
    HELD,
    INLINE,
    STREAMED,
    DamagedRecordsError,
    Submit,
    pack_number,
    pack_submit,
    unpack_admitted,
    unpack_fail,
    unpack_number,
)
from mnserve.channel.wire_errors import unpack_error
from mnserve.codec.decoding import InferenceWork
from mnserve.engine_links.front_end_link import LinkMemories
from mnserve.errors import EngineLostError, QueueFullError
from mnserve.execution.results import InferenceResult
from mnserve.remote.admission import OnAdmitted
from mnserve.remote.answers import IncomingAnswers
from mnserve.remote.placing import NO_PLACE, Placing

MAX_ON_THEIR_WAY: Final = 65_536
"""Most requests of a link without an end; those whose callers have left count, while the engine process is stuck."""

_CROWD: Final = 4
"""Part of those who were answered together whose next requests leave together; fewer of them leave alone."""
_MOST_GATHERED: Final = 8


class _SentRequest:
    """A request on its way.

    Attributes:
        future: Its result.
        place: Place of its tensors, or NO_PLACE.
        on_admitted: Called once it is in the queue of its model.
    """

    __slots__ = ("future", "on_admitted", "place")

    def __init__(self, future: asyncio.Future[InferenceResult], place: int, on_admitted: OnAdmitted | None) -> None:
        self.future = future
        self.place = place
        self.on_admitted = on_admitted


class EngineLink:
    """Front end's end of the link to an engine process, on the running event loop.

    Args:
        sock: Connected stream socket; it is closed with the link.
        memories: Memory of requests and answers.
        on_closed: Called once, with the reason, when the link has ended; its requests have failed then.
    """

    def __init__(
        self, sock: socket.socket, memories: LinkMemories, on_closed: Callable[[str], None] = lambda _: None
    ) -> None:
        self._link = Link(sock, self._take, self._closed)
        self._memories = memories
        self._arena = Arena(memories.requests)
        self._placing = Placing(self._link, self._arena)
        self._answers = IncomingAnswers(self._link, memories.answers.view.toreadonly(), self._answered)
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, _SentRequest] = {}
        self._held: dict[int, int] = {}
        self._tickets = 0
        self._answered_together = 0
        self._reason = ""

    @property
    def closed(self) -> bool:
        """True once the process has ended, or the link to it has."""
        return self._link.closed

    @property
    def outstanding(self) -> int:
        """Requests that were sent and have no end yet."""
        return len(self._calls)

    def close(self) -> None:
        """Ends the link; requests without an end fail."""
        self._link.close()

    async def infer(
        self, endpoint: int, work: InferenceWork, limits: RequestLimits, on_admitted: OnAdmitted | None = None
    ) -> InferenceResult:
        """Sends a request, and waits for its outputs.

        Args:
            endpoint: Number of the served version in the engine process.
            work: The request.
            limits: Its priority and times.
            on_admitted: Called with the bytes of its tensors once it is in the queue of its model. A request that has
                one waits for room, instead of being refused.

        Raises:
            EngineLostError: The link ended before the request did.
            StaleEndpointError: The process does not serve that version any more.
            QueueFullError: Too much is on its way to the engine process, or waits there.
            MnServeError: Any other error of the engine process.
        """
        if self._link.closed:
            raise self._lost()
        if len(self._calls) >= MAX_ON_THEIR_WAY:
            raise QueueFullError(
                f"{MAX_ON_THEIR_WAY} requests are on their way to the engine process, the most that it may have; try "
                "again later"
            )
        number, layout = self._placing.layout(work)
        placed = self._placing.place(work, layout, waits=on_admitted is not None)
        if placed is None:
            try:
                placed = await self._placing.place_later(work, layout, waits=on_admitted is not None)
            except Exception:
                if self._link.closed:
                    raise self._lost() from None
                raise
            if self._link.closed:
                raise self._lost()
            number, _ = self._placing.layout(work)
        payload, place, nbytes = placed
        flags = INLINE if place == NO_PLACE else 0
        if on_admitted is not None:
            flags |= STREAMED
        level, deadline, max_wait, delay_late = limits
        if delay_late:
            flags |= DELAY_LATE
        self._tickets = ticket = self._tickets + 1
        if self._answered_together:
            # Callers who were answered together come back one by one: a part of them goes on its way together.
            self._link.gather = min(_MOST_GATHERED, self._answered_together // _CROWD)
            self._answered_together = 0
        future: asyncio.Future[InferenceResult] = self._loop.create_future()
        self._calls[ticket] = _SentRequest(future, place, on_admitted)
        submit = Submit(
            ticket,
            endpoint,
            number,
            level,
            flags,
            math.inf if deadline is None else deadline,
            max_wait,
            0 if place == NO_PLACE else place,
            nbytes,
        )
        self._link.send(pack_submit(submit, payload))
        del work, placed, payload  # the engine process has them
        try:
            return await future
        except asyncio.CancelledError:
            if ticket in self._calls:
                self._link.send(pack_number(CANCEL, ticket))
            elif not future.cancelled():
                future.exception()  # asyncio logs exceptions that were never looked at
            raise

    def _lost(self) -> EngineLostError:
        return EngineLostError(
            f"the engine process was lost ({self._reason or 'its records are damaged'}); try again later"
        )

    # Records --------------------------------------------------------------------------------------------------

    def _take(self, kind: int, buffer: bytes, start: int, end: int) -> None:
        if kind == ANSWER:
            self._answered_together += 1
            self._answers.take(buffer, start, end)
        elif kind == FAIL:
            ticket, flags = unpack_fail(buffer, start)
            call = self._end(ticket, held=flags & HELD != 0)
            if not call.future.done():
                call.future.set_exception(unpack_error(buffer[start + FAIL_REST : end]))
        elif kind == ADMITTED:
            ticket, nbytes = unpack_admitted(buffer, start)
            admitted = self._calls.get(ticket)
            if admitted is not None and admitted.on_admitted is not None and not admitted.future.done():
                admitted.on_admitted(nbytes)
        elif kind == FREED:
            (ticket,) = unpack_number(buffer, start)
            if ticket not in self._held:
                raise DamagedRecordsError(f"the place of request {ticket} is not held")
            self._arena.free(self._held.pop(ticket))
        elif kind == ANSWER_LAYOUT:
            self._answers.take_layout(buffer, start, end)
        else:
            raise DamagedRecordsError(f"an engine process sent a record of kind {kind}")

    def _answered(self, ticket: int) -> asyncio.Future[InferenceResult]:
        return self._end(ticket).future

    def _end(self, ticket: int, *, held: bool = False) -> _SentRequest:
        """Ends a request, and frees its place unless an engine holds it."""
        call = self._calls.pop(ticket, None)
        if call is None:
            raise DamagedRecordsError(f"request {ticket} ended, and is not on its way")
        if call.place != NO_PLACE:
            if held:
                self._held[ticket] = call.place
            else:
                self._arena.free(call.place)
        return call

    def _closed(self, reason: str) -> None:
        self._reason = reason
        calls = list(self._calls.values())
        self._calls.clear()
        for call in calls:
            if not call.future.done():
                call.future.set_exception(self._lost())
        self._arena.close()
        self._answers.close()
        for memory in self._memories:
            memory.close()
        self._on_closed(reason)
