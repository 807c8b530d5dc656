"""What runs batches: an engine with the thread it belongs to, once or several times for a model."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mnserve.engines.base import Engine
from mnserve.errors import EngineInputError
from mnserve.execution import Execution, Work, execute
from mnserve.waiting import Answer, WaitingRequest
from mnserve.watchdog import PROBE_SECONDS, Watch

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
        watch: When the engine counts as broken.
        on_batch: Called on the loop after every successful run.
        on_broken: Called with the reason when the engine counts as broken.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        name: str,
        batched: bool,
        watch: Watch,
        on_batch: Callable[[Execution], None] | None,
        on_broken: Callable[[str], None],
    ) -> None:
        self.thread = instance.thread
        """The instance's thread."""
        self.hung = False
        """Whether a run did not end in time; its thread is lost."""
        self.run_seconds = 0.0
        """How long the last run took."""
        self._engine = instance.engine
        self._name = name
        self._batched = batched
        self._watch = watch
        self._on_batch = on_batch
        self._on_broken = on_broken
        self._probed = -math.inf

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
                await self._probe(error)
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

    async def _probe(self, error: Exception) -> None:
        """After a failure: whether the engine still runs what it ran when it was loaded."""
        probe, now = self._watch.probe, time.monotonic()
        if probe is None or isinstance(error, EngineInputError) or now - self._probed < PROBE_SECONDS:
            return
        self._probed = now
        try:
            await self._execute([probe])
        except Exception as fault:  # noqa: BLE001 (whatever it was, it went well before)
            self._on_broken(f"its engine fails on what it ran when it was loaded ({fault})")

    async def _execute(self, works: list[Work]) -> Execution:
        loop = asyncio.get_running_loop()
        started, limit = loop.time(), self._watch.run_timeout
        timer = loop.call_later(limit, self._hang) if limit else None
        try:
            execution = await loop.run_in_executor(
                self.thread, lambda: execute(self._engine, works, batched=self._batched)
            )
        finally:
            if timer is not None:
                timer.cancel()
        self.run_seconds = loop.time() - started
        return execution

    def _hang(self) -> None:
        self.hung = True
        self._on_broken(f"a run of its engine has not ended after {self._watch.run_timeout:g} s")
