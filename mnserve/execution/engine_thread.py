"""Thread of one engine, in which the engine is loaded and then run."""

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

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

_PREFIX: Final = "engine-"


class EngineThread:
    """Calls functions one after the other in a thread of its own.

    A ThreadPoolExecutor would be joined when the interpreter exits, which an engine that hangs would hold up for ever.
    It also costs a lock, a future and a chain of callbacks for every batch.

    Args:
        name: Name of the model, for the name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=f"{_PREFIX}{name}", daemon=True)
        self._thread.start()

    @staticmethod
    def any_alive() -> bool:
        """True if a thread of any engine has not ended."""
        return any(thread.name.startswith(_PREFIX) for thread in threading.enumerate())

    def post(self, function: Callable[[], object]) -> None:
        """Calls a function once everything before it is done; it must not raise."""
        self._calls.put(function)

    async def call(
        self, function: Callable[[], _Result], unwanted: Callable[[_Result], object] | None = None
    ) -> _Result:
        """Calls a function and waits for its result.

        Args:
            function: The function; a caller that is cancelled does not stop it.
            unwanted: Called, in the thread as well, with the result of ``function`` if its caller was cancelled.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()
        returned: list[_Result] = []

        def call_and_keep() -> _Result:
            returned.append(function())
            return returned[0]

        self.post(partial(_settle, call_and_keep, future, loop))
        try:
            return await future
        except asyncio.CancelledError:
            # The function has yet to end, or has just ended; either way the disposal comes after it.
            if unwanted is not None:
                self.post(partial(_dispose, unwanted, returned))
            raise

    def close(self) -> None:
        """Ends the thread once everything is done; does not wait for it."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # would hold its arguments until the next one


def _settle(function: Callable[[], _Result], future: asyncio.Future[_Result], loop: asyncio.AbstractEventLoop) -> None:
    """Calls a function, and settles a future with its result or its error."""
    settle: Callable[[], None]
    try:
        settle = partial(future.set_result, function())
    except BaseException as error:  # noqa: BLE001 (goes to the caller)
        settle = partial(future.set_exception, error)
    with contextlib.suppress(RuntimeError):  # the loop is closed, and no caller waits
        loop.call_soon_threadsafe(lambda: None if future.done() else settle())


def _dispose(unwanted: Callable[[_Result], object], returned: list[_Result]) -> None:
    """Disposes of the result of a function; there is none where it raised."""
    try:
        for result in returned:
            unwanted(result)
    except Exception:  # noqa: BLE001 (no caller waits; the thread goes on)
        _log.exception("what a caller had left behind could not be put away")
