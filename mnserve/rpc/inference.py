"""One inference request from the message that came to the message that goes, and what is counted of it."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import NamedTuple

from mnserve.access.rate_limits import RateLimits
from mnserve.batching.request_limits import request_limits
from mnserve.batching.request_queue import InferenceResult
from mnserve.codec.decoding import CheckedRequest, check_request
from mnserve.codec.encoding import encode_response, is_large
from mnserve.codec.shared_memory import Regions
from mnserve.errors import MnServeError, StoppingError
from mnserve.execution.batch import NO_TIMES, InferenceWork
from mnserve.models.registry import Models, ServedModel
from mnserve.models.response_cache import key_of
from mnserve.observability.logs import REQUEST_ID
from mnserve.observability.tracing import RequestTrace
from mnserve.protocol import service_pb2 as pb
from mnserve.status import failure_reason

__all__ = ["Call", "Inference"]

_log = logging.getLogger(__name__)


class Call(NamedTuple):
    """How a request came.

    Attributes:
        remaining: Seconds until the caller's deadline; None where there is none.
        trace: Gets to know how it went; None where the request is not traced.
        caller: Who sent it, for limits of rates.
    """

    remaining: float | None = None
    trace: RequestTrace | None = None
    caller: str = ""


class _Done(NamedTuple):
    """An answer, and what is counted of it."""

    response: pb.ModelInferResponse
    rows: int
    answer: InferenceResult
    kept: bool  # given before, and kept
    lookup_ns: int


class Inference:
    """Answers inference requests: find the model, decode, wait for the batcher, encode.

    Args:
        models: What is served.
        max_message_bytes: Largest answer; None for no limit.
        regions: Shared memory of callers on this machine; None where it is not offered.
        limits: How many requests a caller may send; None for no limit.
    """

    def __init__(
        self,
        models: Models,
        max_message_bytes: int | None = None,
        regions: Regions | None = None,
        limits: RateLimits | None = None,
    ) -> None:
        self._limits = limits
        self._models = models
        self._max_message_bytes = max_message_bytes
        self._regions = regions

    async def answer(self, request: pb.ModelInferRequest, call: Call) -> pb.ModelInferResponse:
        """The answer to one request.

        Args:
            request: The message.
            call: How it came.

        Raises:
            RequestError, EngineError: Whatever ``mnserve.status`` has a code for.
        """
        REQUEST_ID.set(request.id)
        try:
            served, done = await self._counted(request, call)
        except BaseException as error:
            if call.trace is not None:
                call.trace.failed(error)
            raise
        if call.trace is not None:
            call.trace.answered(served, done.rows, done.answer)
        return done.response

    async def _counted(self, request: pb.ModelInferRequest, call: Call) -> tuple[ServedModel, _Done]:
        started, limits = time.perf_counter_ns(), self._limits
        while True:
            served = self._models.find(request.model_name, request.model_version)
            try:
                if limits is not None:
                    limits.take(call.caller)
                    limits = None  # once, however often the model is replaced meanwhile
                done = await self._run(served, request, call)
            except BaseException as error:
                if isinstance(error, StoppingError) and self._was_replaced(served, request):
                    continue  # between finding it and asking it; nothing was admitted there
                reason = "CANCELED" if isinstance(error, asyncio.CancelledError) else failure_reason(error)
                served.counters.record_failure(reason=reason, total_ns=time.perf_counter_ns() - started)
                _log.debug("model '%s': a request ended as %s: %s", served.model.name, reason, error)
                raise
            total_ns, answer = time.perf_counter_ns() - started, done.answer
            if done.kept:
                served.counters.record_kept(total_ns=total_ns, lookup_ns=done.lookup_ns)
            else:
                served.counters.record_success(
                    rows=done.rows, total_ns=total_ns, queue_ns=answer.queue_ns, times=answer.times
                )
            if _log.isEnabledFor(logging.DEBUG):
                text = "model '%s' version %d: %d rows in %.2f ms, %.2f of them waiting"
                name, version = served.model.name, served.model.version
                _log.debug(text, name, version, done.rows, total_ns / 1e6, answer.queue_ns / 1e6)
            return served, done

    async def _run(self, served: ServedModel, request: pb.ModelInferRequest, call: Call) -> _Done:
        batcher, responses = served.batcher, served.model.responses
        urgent = request_limits(request, served.model.batching.queue, call.remaining)
        deadline = None if urgent.seconds is None else asyncio.get_running_loop().time() + urgent.seconds
        checked = check_request(request, served.model.signature, self._regions)
        batcher.check_admission(checked.rows, level=urgent.level)  # before the work of decoding is done for nothing
        work = await asyncio.to_thread(_decode, checked) if checked.large else _decode(checked)
        if call.trace is not None:
            call.trace.admitted()
        key, kept, lookup_ns = b"", None, 0
        if responses is not None:
            began = time.perf_counter_ns()
            key = await asyncio.to_thread(key_of, work) if checked.large else key_of(work)
            kept = responses.find(key)
            lookup_ns = time.perf_counter_ns() - began
        if kept is not None:
            answer = InferenceResult(arrays=kept, queue_ns=0, times=NO_TIMES)
        else:
            answer = await batcher.infer(work, deadline=deadline, level=urgent.level, wait=urgent.wait)
        encode = partial(
            encode_response,
            signature=served.model.signature,
            version=served.model.version,
            request_id=request.id,
            names=work.outputs,
            arrays=answer.arrays,
            max_bytes=self._max_message_bytes,
            targets=checked.targets,
            regions=self._regions,
        )
        response = await asyncio.to_thread(encode) if is_large(answer.arrays) else encode()
        if responses is not None and kept is None:
            responses.keep(key, answer.arrays)
            served.counters.record_miss(lookup_ns)
        return _Done(response, work.rows, answer, kept is not None, lookup_ns)

    def _was_replaced(self, served: ServedModel, request: pb.ModelInferRequest) -> bool:
        """Whether a request means another model by now than when it was looked up."""
        try:
            return self._models.find(request.model_name, request.model_version) is not served
        except MnServeError:
            return False


def _decode(checked: CheckedRequest) -> InferenceWork:
    decoded = checked.decode()
    work = InferenceWork(feeds=decoded.feeds, rows=decoded.rows, outputs=decoded.outputs)
    _ = work.nbytes  # counted here, where it holds up nobody
    return work
