"""Loaded version of a model with its batcher and its counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from mnserve.batching.batcher import Batcher
from mnserve.batching.queue_policy import QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.execution.instances import Instance
from mnserve.execution.request import Reply, WaitingRequest
from mnserve.execution.results import NO_TIMES, InferenceResult
from mnserve.models.loading import LoadedModel
from mnserve.models.response_cache import KeepingReply, ModelResponses, response_key
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
        key = await _response_key(work)
        kept = responses.find(key)
        lookup_ns = time.perf_counter_ns() - started
        if kept is not None:
            return InferenceResult(kept, 0, NO_TIMES, lookup_ns, kept=True)
        result = await self.batcher.infer(work, limits, on_admitted)
        responses.keep(key, result.arrays)
        return result._replace(lookup_ns=lookup_ns)

    def admit(self, work: InferenceWork, limits: RequestLimits, reply: Reply) -> WaitingRequest | None:
        """Answers a small request from the kept answers at once, or queues it, without a task that waits for it.

        Args:
            work: The request; its inputs are read on the event loop where answers are kept.
            limits: Its priority and times.
            reply: Gets the outcome, as from :meth:`mnserve.batching.batcher.Batcher.admit`.

        Returns:
            The request in the queue, to withdraw it by; None if it has its answer.

        Raises:
            UnavailableError, DeadlineExceededError: It is refused.
        """
        responses = self.model.responses
        if responses is not None:
            started = time.perf_counter_ns()
            key = response_key(work)
            if _answer_from(responses, key, started, reply):
                return None
            reply = KeepingReply(reply, responses, key, time.perf_counter_ns() - started)
        return self.batcher.admit(work, limits, reply)

    async def admit_later(
        self,
        work: InferenceWork,
        limits: RequestLimits,
        reply: Reply,
        on_admitted: Callable[[int], None] | None = None,
    ) -> WaitingRequest | None:
        """Answers a request of any size as :meth:`admit` does, or queues it once there is room.

        Args:
            work: The request.
            limits: Its priority and times.
            reply: Gets the outcome.
            on_admitted: See :meth:`mnserve.batching.batcher.Batcher.infer`.

        Returns:
            The request in the queue; None if it has its answer.

        Raises:
            UnavailableError, DeadlineExceededError: It is refused.
        """
        responses = self.model.responses
        if responses is not None:
            started = time.perf_counter_ns()
            key = await _response_key(work)
            if _answer_from(responses, key, started, reply):
                return None
            reply = KeepingReply(reply, responses, key, time.perf_counter_ns() - started)
        return await self.batcher.admit_later(work, limits, reply, on_admitted)

    def withdraw(self, request: WaitingRequest) -> None:
        """See :meth:`mnserve.batching.batcher.Batcher.withdraw`."""
        self.batcher.withdraw(request)

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
            instance.engine.close()


async def _response_key(work: InferenceWork) -> bytes:
    """Computes the key of a request, in a thread where that takes long."""
    large = work.nbytes > INLINE_BYTES or any(array.dtype == object for array in work.feeds.values())
    return await asyncio.to_thread(response_key, work) if large else response_key(work)


def _answer_from(responses: ModelResponses, key: bytes, started: int, reply: Reply) -> bool:
    """Answers a request if an answer was kept for it."""
    kept = responses.find(key)
    if kept is None:
        return False
    reply.set_result(InferenceResult(kept, 0, NO_TIMES, time.perf_counter_ns() - started, kept=True))
    return True
