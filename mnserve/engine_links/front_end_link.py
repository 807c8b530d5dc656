"""Link to one front end: its requests become work for the batchers, and their outcomes records."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from mnserve.batching.request_limits import RequestLimits
from mnserve.channel.arena import Arena
from mnserve.channel.link import Link
from mnserve.channel.memory import SharedMemory
from mnserve.channel.records import (
    CANCEL,
    DELAY_LATE,
    FREED,
    HELD,
    INLINE,
    LAYOUT,
    LAYOUT_REST,
    RELEASE,
    STREAMED,
    SUBMIT,
    SUBMIT_REST,
    DamagedRecordsError,
    pack_admitted,
    pack_fail,
    pack_number,
    unpack_layout,
    unpack_number,
    unpack_submit,
)
from mnserve.channel.wire_errors import pack_error
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.engine_links.answers import AnswerSender
from mnserve.engine_links.layouts import HeardLayouts, SubmitLayout, parse_submit_layout
from mnserve.engine_links.reply import LinkReply
from mnserve.engine_links.served import Served
from mnserve.errors import StaleEndpointError, UnavailableError
from mnserve.execution.results import InferenceResult

_log = logging.getLogger(__name__)

STRING_BYTES: Final = 2**13
"""Strings of a request up to this size are taken apart on the event loop."""
_LEFT: Final = pack_error(UnavailableError("the caller has left"))


class LinkMemories(NamedTuple):
    """Shared memory of a link; it is closed with the link.

    Attributes:
        requests: The front end writes it.
        answers: The engine process writes it.
    """

    requests: SharedMemory
    answers: SharedMemory


class FrontEndLink:
    """Engine process's end of the link to a front end, on the running event loop.

    Args:
        sock: Connected stream socket; it is closed with the link.
        memories: Memory of requests and answers.
        endpoints: Served versions by their numbers, which no later version gets again.
        on_closed: Called once, with the reason, when the link has ended; its requests are withdrawn then.
    """

    def __init__(
        self,
        sock: socket.socket,
        memories: LinkMemories,
        endpoints: Mapping[int, Served],
        on_closed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._link = Link(sock, self._take, self._closed)
        self._memories = memories
        self._payloads = memories.requests.view.toreadonly()
        self._arena = Arena(memories.answers)
        self._endpoints = endpoints
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._layouts: HeardLayouts[SubmitLayout] = HeardLayouts()
        self._answers = AnswerSender(self._link, self._arena, self._send_failure)
        self._open: dict[int, LinkReply] = {}

    @property
    def outstanding(self) -> int:
        """Number of requests without an outcome."""
        return len(self._open)

    def close(self) -> None:
        """Ends the link, and withdraws its requests."""
        self._link.close()

    # Outcomes -------------------------------------------------------------------------------------------------

    def answer(self, reply: LinkReply, result: InferenceResult) -> None:
        """Sends the outputs of a request."""
        reply.is_done = True
        reply.request = None
        if self._open.pop(reply.ticket, None) is not None:
            self._answers.send(reply.ticket, result)

    def fail(self, reply: LinkReply, error: BaseException) -> None:
        """Sends the error of a request."""
        if self._open.pop(reply.ticket, None) is not None:
            self._end(reply, pack_error(error))

    def _end(self, reply: LinkReply, text: bytes) -> None:
        """Ends a request without an answer; an engine may go on reading its place."""
        reply.is_done = True
        request, reply.request = reply.request, None
        held = reply.placed and request is not None and request.in_batch
        self._link.send(pack_fail(reply.ticket, HELD if held else 0, text))
        if held and request is not None:
            request.on_unread = partial(self._send_freed, reply.ticket)

    def _send_failure(self, ticket: int, error: BaseException) -> None:
        self._link.send(pack_fail(ticket, 0, pack_error(error)))

    def _send_freed(self, ticket: int) -> None:
        self._link.send(pack_number(FREED, ticket))

    # Records --------------------------------------------------------------------------------------------------

    def _take(self, kind: int, buffer: bytes, start: int, end: int) -> None:
        if kind == SUBMIT:
            self._submit(buffer, start, end)
        elif kind == RELEASE:
            try:
                self._arena.free(unpack_number(buffer, start)[0])
            except ValueError as error:
                raise DamagedRecordsError(str(error)) from None
        elif kind == CANCEL:
            self._cancel(unpack_number(buffer, start)[0])
        elif kind == LAYOUT:
            self._layouts.add(unpack_layout(buffer, start)[0], parse_submit_layout(buffer[start + LAYOUT_REST : end]))
        else:
            raise DamagedRecordsError(f"a front end sent a record of kind {kind}")

    def _submit(self, buffer: bytes, start: int, end: int) -> None:
        ticket, endpoint, number, level, flags, deadline, max_wait, place, nbytes = unpack_submit(buffer, start)
        layout = self._layouts.get(number)
        inline = flags & INLINE
        if nbytes != end - start - SUBMIT_REST if inline else place + nbytes > len(self._payloads):
            raise DamagedRecordsError(f"request {ticket} claims {nbytes} bytes at {place}")
        if layout.tensors.nbytes not in (None, nbytes) or ticket in self._open:
            raise DamagedRecordsError(f"request {ticket} with {nbytes} bytes does not fit its layout, or came twice")
        served = self._endpoints.get(endpoint)
        if served is None:
            self._send_failure(ticket, StaleEndpointError("this version of the model is not served any more"))
            return
        reply = self._open[ticket] = LinkReply(self, ticket, served)
        limits = RequestLimits(level, None if deadline == math.inf else deadline, max_wait, flags & DELAY_LATE != 0)
        if layout.tensors.nbytes is None:
            payload = buffer[start + SUBMIT_REST : end] if inline else self._payloads[place : place + nbytes]
            reply.task = self._loop.create_task(self._admit_strings(layout, payload, limits, reply, flags))
            return
        if inline:
            feeds = layout.feeds(buffer[start + SUBMIT_REST : end], 0)
        else:
            feeds = layout.feeds(self._payloads, place)
            reply.placed = True
        work = InferenceWork(feeds=feeds, rows=layout.rows, outputs=layout.outputs, alone=layout.alone)
        if flags & STREAMED or nbytes > INLINE_BYTES:
            reply.task = self._loop.create_task(self._admit_later(work, limits, reply, flags))
            return
        try:
            request = served.admit(work, limits, reply)
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            self.fail(reply, error)
        else:
            if not reply.is_done:
                reply.request = request

    async def _admit_strings(
        self, layout: SubmitLayout, payload: bytes | memoryview, limits: RequestLimits, reply: LinkReply, flags: int
    ) -> None:
        """Takes the inputs apart, in a thread where they are large, and queues the request."""
        try:
            unpack = partial(_unpacked, layout, payload)
            work = await asyncio.to_thread(unpack) if len(payload) > STRING_BYTES else unpack()
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            self.fail(reply, error)
        else:
            await self._admit_later(work, limits, reply, flags)

    async def _admit_later(self, work: InferenceWork, limits: RequestLimits, reply: LinkReply, flags: int) -> None:
        """Queues a request that may wait for room, or whose kept answer takes long to look for."""
        on_admitted = partial(self._send_admitted, reply.ticket) if flags & STREAMED else None
        try:
            request = await reply.served.admit_later(work, limits, reply, on_admitted)
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            self.fail(reply, error)
        else:
            reply.task = None
            if not reply.is_done:
                reply.request = request

    def _send_admitted(self, ticket: int, nbytes: int) -> None:
        self._link.send(pack_admitted(ticket, nbytes))

    def _cancel(self, ticket: int) -> None:
        reply = self._open.pop(ticket, None)
        if reply is not None:  # its outcome is on the way
            reply.withdraw()
            self._end(reply, _LEFT)

    def _closed(self, reason: str) -> None:
        replies = list(self._open.values())
        self._open.clear()
        if replies:
            _log.warning("a front end has ended (%s); %d requests of it are withdrawn", reason, len(replies))
        for reply in replies:
            reply.withdraw()
        self._answers.close()
        self._arena.close()
        self._payloads = memoryview(b"")
        for memory in self._memories:
            memory.close()
        self._on_closed(reason)


def _unpacked(layout: SubmitLayout, payload: bytes | memoryview) -> InferenceWork:
    arrays = layout.tensors.unpack(bytes(payload))
    feeds = dict(zip(layout.names, arrays, strict=True))
    return InferenceWork(feeds=feeds, rows=layout.rows, outputs=layout.outputs, alone=layout.alone)
