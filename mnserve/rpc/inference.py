"""Path of one inference request: from its message to the message of the answer, with its statistics."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.batching.request_limits import default_limits, request_limits
from mnserve.codec.answer_forms import AnswerForms
from mnserve.codec.decoding import CheckedRequest, InferenceWork, check_request
from mnserve.codec.encoding import encode_response, is_large
from mnserve.codec.known_forms import KnownRequest
from mnserve.codec.shared_memory import Regions
from mnserve.codec.tensors import INLINE_BYTES
from mnserve.errors import MnServeError, RateLimitedError, StoppingError
from mnserve.execution.results import InferenceResult
from mnserve.models.catalogue import Catalogue, Endpoint
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
        models: Catalogue,
        max_message_bytes: int | None = None,
        regions: Regions | None = None,
        rates: RateLimits | None = None,
        refused: RefusedCalls | None = None,
    ) -> None:
        self._rates = rates
        self._refused = RefusedCalls() if refused is None else refused
        self._models = models
        self._max_message_bytes = max_message_bytes
        self._most_inline = INLINE_BYTES if max_message_bytes is None else min(INLINE_BYTES, max_message_bytes)
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
            started = time.perf_counter_ns()
            if self._rates is not None:
                self._take_permit(self._rates, caller, request)
            while True:
                served = self._models.find(request.model_name, request.model_version)
                try:
                    return await self._run(served, request, started, remaining, trace, streamed)
                except BaseException as error:
                    if not self._goes_on(error, served, request.model_version, started):
                        raise
        except BaseException as error:
            if trace is not None:
                trace.failed(error)
            raise

    async def answer_known(
        self, request: KnownRequest, remaining: float | None
    ) -> bytes | pb.ModelInferResponse | None:
        """Answers a request of a form that was answered before, in as few steps as there are.

        Args:
            request: The request.
            remaining: Seconds until the caller's deadline; None where there is none.

        Returns:
            The answer; None where the model was loaded again since, so that the request has to be checked.

        Raises:
            RequestError, EngineError: As for :meth:`answer`.
        """
        form = request.form
        REQUEST_ID.set(request.id)
        started = time.perf_counter_ns()
        while True:
            served = self._models.find(form.model, form.version)
            if served.signature is not form.signature:
                return None
            try:
                limits = default_limits(served.queue_rules, now=time.monotonic(), remaining=remaining)
                served.reject_early(form.layout.rows, limits.level)
                work = request.decode()
                result = await served.infer(work, limits)
                data = self._encode_known(served, request.id, work, result)
                if data is None:
                    response = await self._encode(served, request.id, work, result)
                self._count(served, work.rows, result, started)
                return response if data is None else data
            except BaseException as error:
                if not self._goes_on(error, served, form.version, started):
                    raise

    def _encode_known(
        self, served: Endpoint, request_id: str, work: InferenceWork, result: InferenceResult
    ) -> bytes | None:
        """Encodes an answer by the form of an earlier one; None where it has to be encoded as a message."""
        forms: AnswerForms | None = served.signature.answers.get(served.version)
        if forms is None:
            forms = served.signature.answers[served.version] = AnswerForms(served.signature, served.version)
        return forms.encode(request_id, work.outputs, result.arrays, self._most_inline)

    async def _run(
        self,
        served: Endpoint,
        request: pb.ModelInferRequest,
        started: int,
        remaining: float | None,
        trace: RequestTrace | None,
        streamed: StreamedRequest | None,
    ) -> pb.ModelInferResponse:
        limits = request_limits(request, served.queue_rules, now=time.monotonic(), remaining=remaining)
        checked = check_request(request, served.signature, self._regions)
        if streamed is None:
            served.reject_early(checked.layout.rows, limits.level)
        work = await asyncio.to_thread(checked.decode) if checked.large else checked.decode()
        if trace is not None:
            trace.admitted()
        result = await served.infer(work, limits, None if streamed is None else streamed.admitted)
        response = await self._encode(served, request.id, work, result, checked)
        if streamed is not None:
            strings = any(array.dtype == object for array in result.arrays)  # what they take is known encoded only
            streamed.answered(
                await asyncio.to_thread(response.ByteSize)
                if strings
                else len(request.id) + sum([array.nbytes for array in result.arrays])
            )
        if trace is not None:  # before the counters: where it raises, the request counts once, as a failure
            trace.answered(served, work.rows, result)
        self._count(served, work.rows, result, started)
        return response

    async def _encode(
        self,
        served: Endpoint,
        request_id: str,
        work: InferenceWork,
        result: InferenceResult,
        checked: CheckedRequest | None = None,
    ) -> pb.ModelInferResponse:
        classes = None if checked is None else checked.layout.classes
        encode = partial(
            encode_response,
            signature=served.signature,
            version=served.version,
            request_id=request_id,
            names=work.outputs,
            arrays=result.arrays,
            max_bytes=self._max_message_bytes,
            targets=None if checked is None else checked.targets,
            regions=self._regions,
            classes=classes,
        )
        return await asyncio.to_thread(encode) if is_large(result.arrays, classes) else encode()

    def _count(self, served: Endpoint, rows: int, result: InferenceResult, started: int) -> None:
        total_ns = time.perf_counter_ns() - started
        counters = served.counters
        if result.kept:
            counters.record_cache_hit(total_ns=total_ns, lookup_ns=result.lookup_ns)
            return
        if result.lookup_ns >= 0:
            counters.record_cache_miss(result.lookup_ns)
        counters.record_success(rows=rows, total_ns=total_ns, queue_ns=result.queue_ns, times=result.times)
        if _log.isEnabledFor(logging.DEBUG):
            text = "model '%s' version %d: %d rows in %.2f ms, %.2f of them waiting"
            _log.debug(text, served.name, served.version, rows, total_ns / 1e6, result.queue_ns / 1e6)

    def _goes_on(self, error: BaseException, served: Endpoint, version: str, started: int) -> bool:
        """Counts a failure; True where the request has to look for its model again."""
        if isinstance(error, StoppingError) and self._was_replaced(served, version):
            return True  # between finding the model and asking it; nothing was admitted there
        reason = "CANCELED" if isinstance(error, asyncio.CancelledError) else failure_reason(error)
        served.counters.record_failure(reason=reason, total_ns=time.perf_counter_ns() - started)
        _log.debug("model '%s': a request ended as %s: %s", served.name, reason, error)
        return False

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

    def _was_replaced(self, served: Endpoint, version: str) -> bool:
        """True if a request means another model by now than when it was looked up."""
        try:
            return self._models.find(served.name, version) is not served
        except MnServeError:
            return False
