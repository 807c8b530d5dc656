"""Stream of requests over one call: worked on at the same time, answered in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")

MAX_IN_PROGRESS: Final = 64
"""Most requests of one stream in work, or with answers that wait to be sent. Flow control of gRPC stops the sender of
the rest, so that a client that reads nothing takes no memory."""


async def answer_in_order(
    requests: AsyncIterator[_Request],
    answer: Callable[[_Request], Awaitable[_Answer]],
    send: Callable[[_Answer], Awaitable[None]],
    *,
    enough: asyncio.Event | None = None,
    max_in_progress: int = MAX_IN_PROGRESS,
) -> bool:
    """Answers a stream until it ends; an error or a cancelled call ends the work on all requests not answered yet.

    Args:
        requests: Requests of the stream.
        answer: Works on one request; never fails.
        send: Takes the answers, in the order of the requests; may wait for the receiver.
        enough: Once it is set no more requests are read, and those that were read are answered.
        max_in_progress: Most requests that are read and not answered yet.

    Returns:
        True if the stream had ended by itself.
    """
    room = asyncio.Semaphore(max_in_progress)
    taken: asyncio.Queue[asyncio.Future[_Answer] | None] = asyncio.Queue()
    working: set[asyncio.Future[_Answer]] = set()

    async def take() -> None:
        await room.acquire()
        async for request in requests:
            task = asyncio.ensure_future(answer(request))
            working.add(task)
            taken.put_nowait(task)
            await room.acquire()

    reader = asyncio.ensure_future(take())
    reader.add_done_callback(lambda _: taken.put_nowait(None))
    stopper = asyncio.ensure_future((enough or asyncio.Event()).wait())
    stopper.add_done_callback(lambda _: reader.cancel())
    try:
        while (task := await taken.get()) is not None:
            await send(await task)
            working.discard(task)
            room.release()
        if reader.cancelled():
            return False
        await reader  # fails as reading failed
        return True
    finally:
        stopper.cancel()
        reader.cancel()
        for left in working:
            left.cancel()
        await asyncio.gather(stopper, reader, *working, return_exceptions=True)
