"""Path of one inference request: from its message to the message of the answer, with its statistics."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.batching.request_limits import request_limits
from mnserve.codec.decoding import check_request
from mnserve.codec.encoding import encode_response, is_large
from mnserve.codec.shared_memory import Regions
from mnserve.errors import MnServeError, RateLimitedError, StoppingError
from mnserve.execution.results import NO_TIMES, InferenceResult
from mnserve.models.registry import Models
from mnserve.models.response_cache import response_key
from mnserve.models.served import ServedModel
from mnserve.observability.logs import REQUEST_ID
from mnserve.observability.tracing import RequestTrace
from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.streaming import StreamedRequest
from mnserve.status import failure_reason

_log = logging.getLogger(__name__)


class Inference:
    """Answers inference requests: find the model, decode, wait for the batcher, encode.

    Args:
        models: The served models.
        max_message_bytes: Largest answer; None for no limit.
        regions: Shared memory of callers on this machine; None where it is not offered.
        rates: Limits of requests of each caller; None for no limit.
        refused: Counts requests over these limits whose model is not known.
    """

    def __init__(
        self,
        models: Models,
        max_message_bytes: int | None = None,
        regions: Regions | None = None,
        rates: RateLimits | None = None,
        refused: RefusedCalls | None = None,
    ) -> None:
        self._rates = rates
        self._refused = RefusedCalls() if refused is None else refused
        self._models = models
        self._max_message_bytes = max_message_bytes
        self._regions = regions

    async def answer(
        self,
        request: pb.ModelInferRequest,
        *,
        remaining: float | None = None,
        trace: RequestTrace | None = None,
        caller: bytes | str = "",
        streamed: StreamedRequest | None = None,
    ) -> pb.ModelInferResponse:
        """Answers one request, and counts it.

        Args:
            request: The message.
            remaining: Seconds until the caller's deadline; None where there is none.
            trace: Takes the course of the request; None where it is not traced.
            caller: Sender of the request, for limits of rates.
            streamed: Hears when the request is admitted and answered; with one it waits for room in the queue, instead
                of being refused.

        Raises:
            RequestError, EngineError: An error that ``mnserve.status`` has a code for.
        """
        REQUEST_ID.set(request.id)
        try:
            return await self._answer(request, remaining, trace, caller, streamed)
        except BaseException as error:
            if trace is not None:
                trace.failed(error)
            raise

    async def _answer(
        self,
        request: pb.ModelInferRequest,
        remaining: float | None,
        trace: RequestTrace | None,
        caller: bytes | str,
        streamed: StreamedRequest | None,
    ) -> pb.ModelInferResponse:
        started = time.perf_counter_ns()
        if self._rates is not None:
            self._take_permit(self._rates, caller, request)
        while True:
            served = self._models.find(request.model_name, request.model_version)
            try:
                return await self._run(served, request, started, remaining, trace, streamed)
            except BaseException as error:
                if isinstance(error, StoppingError) and self._was_replaced(served, request):
                    continue  # between finding the model and asking it; nothing was admitted there
                reason = "CANCELED" if isinstance(error, asyncio.CancelledError) else failure_reason(error)
                served.counters.record_failure(reason=reason, total_ns=time.perf_counter_ns() - started)
                _log.debug("model '%s': a request ended as %s: %s", served.model.name, reason, error)
                raise

    async def _run(
        self,
        served: ServedModel,
        request: pb.ModelInferRequest,
        started: int,
        remaining: float | None,
        trace: RequestTrace | None,
        streamed: StreamedRequest | None,
    ) -> pb.ModelInferResponse:
        model, batcher, responses = served.model, served.batcher, served.model.responses
        limits = request_limits(request, model.batching.queue, now=time.monotonic(), remaining=remaining)
        checked = check_request(request, model.signature, self._regions)
        if streamed is None:
            batcher.reject_early(checked.layout.rows, limits.level)
        large = checked.large
        work = await asyncio.to_thread(checked.decode) if large else checked.decode()
        if trace is not None:
            trace.admitted()
        cached, cache_key, lookup_ns = None, b"", 0
        if responses is not None:
            lookup_started = time.perf_counter_ns()
            cache_key = await asyncio.to_thread(response_key, work) if large else response_key(work)
            cached = responses.find(cache_key)
            lookup_ns = time.perf_counter_ns() - lookup_started
        if cached is None:
            result = await batcher.infer(work, limits, None if streamed is None else streamed.admitted)
        else:
            result = InferenceResult(arrays=cached, queue_ns=0, times=NO_TIMES)
        classes = checked.layout.classes
        encode = partial(
            encode_response,
            signature=model.signature,
            version=model.version,
            request_id=request.id,
            names=work.outputs,
            arrays=result.arrays,
            max_bytes=self._max_message_bytes,
            targets=checked.targets,
            regions=self._regions,
            classes=classes,
        )
        response = await asyncio.to_thread(encode) if is_large(result.arrays, classes) else encode()
        if streamed is not None:
            strings = any(array.dtype == object for array in result.arrays)  # what they take is known encoded only
            streamed.answered(
                await asyncio.to_thread(response.ByteSize)
                if strings
                else len(request.id) + sum([array.nbytes for array in result.arrays])
            )
        if responses is not None and cached is None:
            responses.keep(cache_key, result.arrays)
            served.counters.record_cache_miss(lookup_ns)
        total_ns = time.perf_counter_ns() - started
        if trace is not None:  # before the counters: where it raises, the request counts once, as a failure
            trace.answered(served, work.rows, result)
        if cached is None:
            served.counters.record_success(
                rows=work.rows, total_ns=total_ns, queue_ns=result.queue_ns, times=result.times
            )
        else:
            served.counters.record_cache_hit(total_ns=total_ns, lookup_ns=lookup_ns)
        if _log.isEnabledFor(logging.DEBUG):
            text = "model '%s' version %d: %d rows in %.2f ms, %.2f of them waiting"
            _log.debug(text, model.name, model.version, work.rows, total_ns / 1e6, result.queue_ns / 1e6)
        return response

    def _take_permit(self, rates: RateLimits, caller: bytes | str, request: pb.ModelInferRequest) -> None:
        """Takes a permit of the caller, whatever becomes of the request: also one for a model that is not there."""
        try:
            rates.take(caller)
        except RateLimitedError:
            try:
                served = self._models.find(request.model_name, request.model_version)
            except MnServeError:
                self._refused.count("RATE")
            else:
                served.counters.record_failure(reason="REJECTED", total_ns=0)
            raise

    def _was_replaced(self, served: ServedModel, request: pb.ModelInferRequest) -> bool:
        """True if a request means another model by now than when it was looked up."""
        try:
            return self._models.find(request.model_name, request.model_version) is not served
        except MnServeError:
            return False
