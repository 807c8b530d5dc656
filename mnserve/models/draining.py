"""Draining of models: each finishes its admitted requests, and then its engines are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mnserve.models.served import ServedModel


class DrainingModels:
    """Models that refuse new requests, until all of their engines are closed."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], ServedModel] = {}
        self._left_a_thread = False  # True once a closed model left a hanging thread behind

    def add(self, models: Iterable[ServedModel]) -> None:
        """Makes models refuse new requests, finish the admitted ones, and close their engines."""
        for model in models:
            model.batcher.refuse()
            task = asyncio.get_running_loop().create_task(self._drain(model))
            self._tasks[task] = model
            task.add_done_callback(self._tasks.pop)

    async def wait(self, timeout: float) -> bool:
        """Waits until all models are closed. Callers of a model that takes longer get the error of a stopping server.

        Args:
            timeout: Seconds to wait.

        Returns:
            True if all models finished in time, and no thread hangs in an engine.
        """
        tasks = dict(self._tasks)
        if not tasks:
            return not self._left_a_thread
        done, _ = await asyncio.wait(tasks, timeout=timeout)
        finished = True
        for task, model in tasks.items():
            if task in done or model.batcher.idle:  # an idle batcher will close at once
                await task
            else:
                finished = False
                model.batcher.abort()
                task.cancel()
        return finished and not self._left_a_thread

    async def _drain(self, model: ServedModel) -> None:
        await model.retire()
        self._left_a_thread = self._left_a_thread or model.batcher.hung
