"""Stream of requests over one call: worked on at the same time, answered in their order.

A stream is read on once its last request is in the queue of its model, and while its share of the memory of all
streams allows it. Flow control of HTTP/2 stops the sender of the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Generic, TypeVar

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")

MAX_IN_PROGRESS: Final = 64
"""Most requests of one stream in work, or with answers that wait to be sent."""
_MAX_AT_FIRST: Final = 8
"""The same until the stream has an answer, whose size is what the others are taken for."""


class StreamMemory:
    """Bytes that the streams of a server hold: requests that wait or run, and answers that wait to be sent.

    Args:
        most: Bytes that they may hold. One request of a stream is always let in. Beyond it a stream may hold as much as
            is left to all others, so that no number of streams takes everything.
    """

    def __init__(self, most: int = 2**30) -> None:
        self.most = most
        self.held = 0
        self.readers: set[asyncio.Event] = set()
        """Streams that wait to be read on."""

    def add(self, nbytes: int) -> None:
        """Notes that a stream holds so many bytes more, or less where they are negative."""
        self.held += nbytes
        if nbytes < 0:
            for reader in self.readers:
                reader.set()


class StreamedRequest:
    """A request of a stream, from its message until its answer is sent.

    Args:
        stream: What the stream holds.
    """

    __slots__ = ("_held", "_stream", "read_on")

    def __init__(self, stream: _Holding) -> None:
        self._stream = stream
        self._held = 0
        self.read_on = asyncio.get_running_loop().create_future()
        """Ends once the stream may be read on."""

    def admitted(self, nbytes: int) -> None:
        """Notes that the request is in the queue of its model, with so many bytes."""
        self._hold(nbytes)
        self.go_on()

    def answered(self, nbytes: int) -> None:
        """Notes that the answer, of so many bytes, waits to be sent."""
        self._stream.largest_answer = max(self._stream.largest_answer, nbytes)
        self._hold(nbytes)

    def go_on(self) -> None:
        """Lets the stream be read on."""
        if not self.read_on.done():
            self.read_on.set_result(None)

    def end(self) -> None:
        """Notes that nothing of it is held any more."""
        self._hold(0)

    def _hold(self, nbytes: int) -> None:
        self._stream.add(nbytes - self._held)
        self._held = nbytes


class _Holding:
    """What one stream holds."""

    def __init__(self, memory: StreamMemory, max_in_progress: int) -> None:
        self._memory, self._max_in_progress = memory, max_in_progress
        self._held = 0
        self.unsent = 0
        """Requests without an answer that was sent."""
        self.largest_answer = -1
        self.changed = asyncio.Event()

    def add(self, nbytes: int) -> None:
        self._held += nbytes
        self._memory.add(nbytes)

    async def room(self) -> None:
        """Waits until one more request may be read."""
        while not self._may_read():
            self.changed.clear()
            self._memory.readers.add(self.changed)
            try:
                await self.changed.wait()
            finally:
                self._memory.readers.discard(self.changed)

    def _may_read(self) -> bool:
        if not self.unsent:
            return True
        first = self.largest_answer < 0
        if self.unsent >= (min(_MAX_AT_FIRST, self._max_in_progress) if first else self._max_in_progress):
            return False
        # Each of them may come to hold an answer beside its request.
        expected = self._held + (self.unsent + 1) * max(0, self.largest_answer)
        return expected <= self._memory.most - self._memory.held


class _InWork(Generic[_Answer]):
    """A request in work, with the task that works on it."""

    def __init__(self, request: StreamedRequest, task: asyncio.Future[_Answer]) -> None:
        self.request, self.task = request, task
        task.add_done_callback(lambda _: request.go_on())


async def answer_in_order(
    requests: AsyncIterator[_Request],
    answer: Callable[[_Request, StreamedRequest], Awaitable[_Answer]],
    send: Callable[[_Answer], Awaitable[None]],
    *,
    enough: asyncio.Event | None = None,
    memory: StreamMemory | None = None,
    max_in_progress: int = MAX_IN_PROGRESS,
) -> bool:
    """Answers a stream until it ends; an error or a cancelled call ends the work on all requests not answered yet.

    Args:
        requests: Requests of the stream.
        answer: Works on one request, and tells when it is admitted and answered; never fails.
        send: Takes the answers, in the order of the requests; may wait for the receiver.
        enough: Once it is set no more requests are read, and those that were read are answered.
        memory: Memory of all streams; None for this stream alone.
        max_in_progress: Most requests that are read and not answered yet.

    Returns:
        True if the stream had ended by itself.
    """
    holding = _Holding(memory or StreamMemory(), max_in_progress)
    taken: asyncio.Queue[_InWork[_Answer] | None] = asyncio.Queue()
    working: set[_InWork[_Answer]] = set()

    async def take() -> None:
        async for request in requests:
            streamed = StreamedRequest(holding)
            item = _InWork(streamed, asyncio.ensure_future(answer(request, streamed)))
            del request  # held by nobody but its task
            working.add(item)
            holding.unsent += 1
            taken.put_nowait(item)
            del item
            await streamed.read_on
            await holding.room()

    reader = asyncio.ensure_future(take())
    reader.add_done_callback(lambda _: taken.put_nowait(None))
    stopper = asyncio.ensure_future((enough or asyncio.Event()).wait())
    stopper.add_done_callback(lambda _: reader.cancel())
    try:
        while (item := await taken.get()) is not None:
            await send(await item.task)
            working.discard(item)
            holding.unsent -= 1
            item.request.end()
            holding.changed.set()
            del item  # an idle stream holds no answer
        if reader.cancelled():
            return False
        await reader  # fails as reading failed
        return True
    finally:
        stopper.cancel()
        reader.cancel()
        for left in working:
            left.task.cancel()
            left.request.end()
        await asyncio.gather(stopper, reader, *(left.task for left in working), return_exceptions=True)
