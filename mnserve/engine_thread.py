"""The one thread that an engine belongs to: it loads it, and then runs it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar

__all__ = ["EngineThread"]

_Result = TypeVar("_Result")

_PREFIX: Final = "engine-"


class EngineThread:
    """Does one thing after the other in a thread of its own.

    A ThreadPoolExecutor would be joined when the interpreter exits, which an engine that hangs would hold up for ever,
    and costs a lock, a future and a chain of callbacks for every batch.

    Args:
        name: What its engine is for.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=f"{_PREFIX}{name}", daemon=True)
        self._thread.start()

    @staticmethod
    def any_alive() -> bool:
        """Whether some thread of an engine, of whatever model, has not ended."""
        return any(thread.name.startswith(_PREFIX) for thread in threading.enumerate())

    def post(self, function: Callable[[], object]) -> None:
        """Calls a function once everything before it is done; it must not raise."""
        self._calls.put(function)

    async def call(self, function: Callable[[], _Result]) -> _Result:
        """Calls a function and waits for what it returns or raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()
        self.post(partial(_answer, function, future, loop))
        return await future

    def close(self) -> None:
        """Ends the thread once everything is done; does not wait for it."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # holds what it was given until the next one


def _answer(function: Callable[[], _Result], future: asyncio.Future[_Result], loop: asyncio.AbstractEventLoop) -> None:
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, function())
    except BaseException as error:  # noqa: BLE001 (goes to whoever waits)
        settle = partial(future.set_exception, error)
    with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
        loop.call_soon_threadsafe(lambda: None if future.done() else settle())
