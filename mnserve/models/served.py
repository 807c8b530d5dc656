"""Loaded version of a model with its batcher and counters, and the entry of a model's name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mnserve.batching.batcher import Batcher
from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.execution.instances import Instance
from mnserve.execution.results import NO_TIMES, InferenceResult
from mnserve.models.loading import LoadedModel
from mnserve.models.response_cache import response_key
from mnserve.models.statistics import ModelCounters
from mnserve.protocol.model_config_pb2 import ModelConfig


class ServedModel:
    """A loaded model with its batcher and its counters.

    Args:
        model: The loaded model.
        instances: Its engines, each with the thread that loaded it and will run it.
        on_change: Called when its readiness changes.
        before: The same version as it was loaded before; its counters go on.
    """

    def __init__(
        self,
        model: LoadedModel,
        instances: Sequence[Instance],
        on_change: Callable[[], None],
        before: ServedModel | None = None,
    ) -> None:
        self.model = model
        self.name: str = model.name
        self.version: int = model.version
        self.config: ModelConfig = model.config
        self.signature: RequestSignature = model.signature
        self.queue_rules: QueueRules = model.batching.queue
        self.fault: str | None = None
        """Reason for which it is not ready; None while it is."""
        self._instances = instances
        self._on_change = on_change
        self.counters: ModelCounters = (
            ModelCounters(model.name, model.version, lambda: 0) if before is None else before.counters
        )
        self.batcher: Batcher = Batcher(
            instances,
            name=model.name,
            options=model.batching,
            on_batch=self.counters.record_batch,
            on_death=self._died,
            health=model.health,
        )

    def reject_early(self, rows: int, level: int = 0) -> None:
        """See :meth:`mnserve.batching.batcher.Batcher.reject_early`."""
        self.batcher.reject_early(rows, level)

    async def infer(
        self,
        work: InferenceWork,
        limits: RequestLimits | None = None,
        on_admitted: Callable[[int], None] | None = None,
    ) -> InferenceResult:
        """Answers a request from the kept answers, or by the batcher."""
        responses = self.model.responses
        if responses is None:
            return await self.batcher.infer(work, limits, on_admitted)
        started = time.perf_counter_ns()
        large = work.nbytes > INLINE_BYTES or any(array.dtype == object for array in work.feeds.values())
        key = await asyncio.to_thread(response_key, work) if large else response_key(work)
        kept = responses.find(key)
        lookup_ns = time.perf_counter_ns() - started
        if kept is not None:
            return InferenceResult(kept, 0, NO_TIMES, lookup_ns, kept=True)
        result = await self.batcher.infer(work, limits, on_admitted)
        responses.keep(key, result.arrays)
        return result._replace(lookup_ns=lookup_ns)

    def take_over(self) -> None:
        """Takes the place of the version before: the counters tell the requests that wait here."""
        self.counters.pending = lambda: self.batcher.waiting_requests

    def _died(self, reason: str) -> None:
        self.fault = reason
        self._on_change()

    async def retire(self) -> None:
        """Refuses new requests, finishes those that were admitted, and closes the engines."""
        self.batcher.refuse()
        await self.batcher.drain()
        self.close()

    def close(self) -> None:
        """Closes the engines; nothing may run any more. Where one hangs in a batch, all are left to themselves."""
        if self.model.responses is not None:
            self.model.responses.drop()
        if self.batcher.hung:
            return
        for instance in self._instances:
            instance.close()


@dataclass(kw_only=True)
class ModelEntry:
    """Versions under one name of the repository.

    Attributes:
        served: Versions that are loaded.
        faults: Version -> reason for which it could not be loaded; None stands for a version that was not found.
        loaded: The model is to be served at all.
        lock: Held while the model is loaded or unloaded.
    """

    served: dict[int, ServedModel] = field(default_factory=dict)
    faults: dict[int | None, str] = field(default_factory=dict)
    loaded: bool = True
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
