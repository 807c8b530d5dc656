"""Loads that were begun: each is carried to its end, whether or not somebody still waits for it.

A thread that loads a model cannot be stopped. If a load ended with its caller, who may give up at any time, the next
one would begin beside a thread that still loads the same model, and callers who ask again would pile them up.
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
    """Loads in tasks of their own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, name: str, lock: asyncio.Lock, load: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Waits for its turn, then loads a model, and waits for that.

        A caller who is cancelled before its turn has come begins nothing. One who is cancelled later leaves the load to
        itself: it takes effect as if somebody had waited for it.

        Args:
            name: The model.
            lock: The model's; held until the load has ended.
            load: Loads it.

        Raises:
            StoppingError: The load was abandoned.
            Exception: Whatever ``load`` raises.
        """
        await lock.acquire()
        task = asyncio.get_running_loop().create_task(load())
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, lock))
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            _log.info("model '%s': who asked for this load has left; it goes on", name)
            task.add_done_callback(partial(_explain, name))
            raise
        if task.cancelled():
            raise StoppingError(f"model '{name}' was not loaded, as the server is stopping; try another server")
        task.result()

    def abandon(self) -> None:
        """Has every load end without an effect. Call it once: what they began is closed on their way out."""
        for task in self._tasks:
            task.cancel()

    async def ended(self, timeout: float) -> None:
        """Waits until all have ended, or for so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def _ended(self, lock: asyncio.Lock, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        lock.release()


def _explain(name: str, task: asyncio.Task[None]) -> None:
    """Logs a fault of ours that nobody waits for any more; others were logged where they were found."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, MnServeError):
        _log.error("model '%s': loading it failed", name, exc_info=error)
