"""Tasks that load models. A load runs to its end, even after its caller has left.

A thread that loads a model cannot be stopped. If a load ended with its caller, the next one would start beside the
thread that still loads the same model. Repeated calls would pile threads up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from mnserve.errors import MnServeError, StoppingError

_log = logging.getLogger(__name__)


class LoadTasks:
    """Running loads, each in a task of its own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, name: str, lock: asyncio.Lock, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Waits for the lock of a model, loads the model, and waits for the end of the load.

        A caller that is cancelled before it has the lock starts no load. A load whose caller is cancelled later goes on
        and takes effect.

        Args:
            name: Name of the model.
            lock: Lock of the model; held until the load has ended.
            load: Loads the model.

        Raises:
            StoppingError: The load was abandoned.
            Exception: Raised by ``load``.
        """
        await lock.acquire()
        task = self._begin(lock, load)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            _log.info("model '%s': who asked for this load has left; it goes on", name)
            task.add_done_callback(partial(_explain, name))
            raise
        if task.cancelled():
            raise StoppingError(f"model '{name}' was not loaded, as the server is stopping; try another server")
        task.result()

    async def begin(self, lock: asyncio.Lock, load: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Begins a load that nobody asked for, as at the start of the server.

        Args:
            lock: Lock of the model; held until the load has ended.
            load: Loads the model.
        """
        await lock.acquire()
        return self._begin(lock, load)

    def _begin(self, lock: asyncio.Lock, load: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(load())
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, lock))
        return task

    def abandon(self) -> None:
        """Cancels every load, which then closes its engines. To be called once."""
        for task in self._tasks:
            task.cancel()

    async def ended(self, timeout: float) -> None:
        """Waits until all loads have ended, for ``timeout`` seconds at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def _ended(self, lock: asyncio.Lock, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        lock.release()


def _explain(name: str, task: asyncio.Task[None]) -> None:
    """Logs an unexpected error of a load without a caller; other errors were logged before."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, MnServeError):
        _log.error("model '%s': loading it failed", name, exc_info=error)
