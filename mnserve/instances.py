"""What runs batches: an engine with the thread it belongs to, once or several times for a model."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mnserve.engines.base import Engine
from mnserve.execution import Execution, Work, execute
from mnserve.waiting import Answer, WaitingRequest

__all__ = ["Instance", "Runner", "engine_thread"]

_log = logging.getLogger(__name__)


def engine_thread(name: str) -> ThreadPoolExecutor:
    """A thread for one engine of model ``name``."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"engine-{name}")


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One engine and its thread.

    Attributes:
        engine: The engine; closing it is the owner's business.
        thread: The one thread that it runs in, best that which loaded it: CUDA graphs belong to the thread that
            captured them.
    """

    engine: Engine
    thread: ThreadPoolExecutor


class Runner:
    """Runs batches on one instance and hands out the answers.

    Args:
        instance: The instance.
        name: Name of the model, for messages.
        batched: Whether the model has a batch dimension.
        on_batch: Called on the loop after every successful run.
    """

    def __init__(
        self, instance: Instance, *, name: str, batched: bool, on_batch: Callable[[Execution], None] | None
    ) -> None:
        self.thread = instance.thread
        """The instance's thread."""
        self.run_seconds = 0.0
        """How long the last run took."""
        self._engine = instance.engine
        self._name = name
        self._batched = batched
        self._on_batch = on_batch

    async def run(self, batch: Sequence[WaitingRequest]) -> None:
        """Runs a batch; if it fails, each of its requests alone, so that only the guilty one gets the error."""
        _log.debug("model '%s': running %d requests", self._name, len(batch))
        started_ns = time.monotonic_ns()
        try:
            execution = await self._execute([item.work for item in batch])
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            if len(batch) == 1:
                if not batch[0].future.done():
                    batch[0].future.set_exception(error)
                return
            _log.warning("model '%s': a batch of %d requests failed, retrying singly", self._name, len(batch))
            for item in batch:
                if not item.future.done():
                    await self.run([item])
            return
        if self._on_batch is not None:
            self._on_batch(execution)
        for item, arrays in zip(batch, execution.answers, strict=True):
            if not item.future.done():
                queue_ns = started_ns - item.admitted_ns
                item.future.set_result(Answer(arrays=arrays, queue_ns=queue_ns, times=execution.times))

    async def _execute(self, works: list[Work]) -> Execution:
        loop = asyncio.get_running_loop()
        started = loop.time()
        execution = await loop.run_in_executor(self.thread, lambda: execute(self._engine, works, batched=self._batched))
        self.run_seconds = loop.time() - started
        return execution
