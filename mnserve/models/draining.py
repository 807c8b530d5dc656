"""Models on their way out: each finishes what it admitted, and then its engines are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mnserve.models.served import ServedModel


class DrainingModels:
    """Models that take no new requests any more, until the last of them is closed."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], ServedModel] = {}
        self._lost = False  # whether one that is gone left a thread behind that hangs

    def add(self, models: Iterable[ServedModel]) -> None:
        """Has models refuse new requests from now on, finish those that they admitted, and close their engines."""
        for model in models:
            model.batcher.refuse()
            task = asyncio.get_running_loop().create_task(self._retire(model))
            self._tasks[task] = model
            task.add_done_callback(self._tasks.pop)

    async def wait(self, timeout: float) -> bool:
        """Waits until all are closed. Whoever waits for one that takes longer is told that the server stops.

        Args:
            timeout: Seconds to wait for them.

        Returns:
            Whether all of them finished in time, and no thread hangs in an engine.
        """
        tasks = dict(self._tasks)
        if not tasks:
            return not self._lost
        done, _ = await asyncio.wait(tasks, timeout=timeout)
        finished = True
        for task, model in tasks.items():
            if task in done or model.batcher.idle:  # an idle one only has yet to notice that it stops
                await task
            else:
                finished = False
                model.batcher.abort()
                task.cancel()
        return finished and not self._lost

    async def _retire(self, model: ServedModel) -> None:
        await model.retire()
        self._lost = self._lost or model.batcher.hung
