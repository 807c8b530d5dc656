"""The one thread that an engine belongs to: it loads it, and then runs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar

__all__ = ["EngineThread"]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

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

    async def call(
        self, function: Callable[[], _Result], unwanted: Callable[[_Result], object] | None = None
    ) -> _Result:
        """Calls a function and waits for what it returns or raises.

        Args:
            function: What is called; a caller that is cancelled does not stop it.
            unwanted: Called, in the thread as well, with what ``function`` returned if its caller was cancelled.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()
        returned: list[_Result] = []

        def keep() -> _Result:
            returned.append(function())
            return returned[0]

        self.post(partial(_answer, keep, future, loop))
        try:
            return await future
        except asyncio.CancelledError:
            # The function is still to end, or has just ended; either way this comes after it.
            if unwanted is not None:
                self.post(partial(_dispose, unwanted, returned))
            raise

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


def _dispose(unwanted: Callable[[_Result], object], returned: list[_Result]) -> None:
    """Hands over what a function returned; nothing where it raised."""
    try:
        for result in returned:
            unwanted(result)
    except Exception:  # noqa: BLE001 (nobody waits; the thread goes on)
        _log.exception("what a caller had left behind could not be put away")
