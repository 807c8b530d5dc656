"""One inference request from the message that came to the message that goes, and what is counted of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mnserve.codec import CheckedRequest, check_request
from mnserve.encoding import encode_response, is_large
from mnserve.errors import MnServeError, StoppingError
from mnserve.execution import Work
from mnserve.logs import REQUEST_ID
from mnserve.models import Models, ServedModel
from mnserve.protocol import service_pb2 as pb
from mnserve.shared_memory import Regions
from mnserve.status import failure_reason
from mnserve.tracing.spans import RequestTrace
from mnserve.urgency import urgency
from mnserve.waiting import Answer

__all__ = ["Inference"]

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Inference:
    """Answers inference requests: find the model, decode, wait for the batcher, encode.

    Args:
        models: What is served.
        max_message_bytes: Largest answer; None for no limit.
        regions: Shared memory of callers on this machine; None where it is not offered.
    """

    def __init__(self, models: Models, max_message_bytes: int | None = None, regions: Regions | None = None) -> None:
        self._models = models
        self._max_message_bytes = max_message_bytes
        self._regions = regions

    async def answer(
        self, request: pb.ModelInferRequest, remaining: float | None, trace: RequestTrace | None = None
    ) -> pb.ModelInferResponse:
        """The answer to one request.

        Args:
            request: The message.
            remaining: Seconds until the caller's deadline; None where there is none.
            trace: Gets to know how it went; None where the request is not traced.

        Raises:
            RequestError, EngineError: Whatever ``mnserve.status`` has a code for.
        """
        REQUEST_ID.set(request.id)
        try:
            served, response, work, answer = await self._counted(request, remaining, trace)
        except BaseException as error:
            if trace is not None:
                trace.failed(error)
            raise
        if trace is not None:
            trace.answered(served, work.rows, answer)
        return response

    async def _counted(
        self, request: pb.ModelInferRequest, remaining: float | None, trace: RequestTrace | None
    ) -> tuple[ServedModel, pb.ModelInferResponse, Work, Answer]:
        started = time.perf_counter_ns()
        while True:
            served = self._models.find(request.model_name, request.model_version)
            try:
                response, work, answer = await self._run(served, request, remaining, trace)
            except BaseException as error:
                if isinstance(error, StoppingError) and self._was_replaced(served, request):
                    continue  # between finding it and asking it; nothing was admitted there
                reason = "CANCELED" if isinstance(error, asyncio.CancelledError) else failure_reason(error)
                served.counters.record_failure(reason=reason, total_ns=time.perf_counter_ns() - started)
                _log.debug("model '%s': a request ended as %s: %s", served.model.name, reason, error)
                raise
            total_ns = time.perf_counter_ns() - started
            served.counters.record_success(
                rows=work.rows, total_ns=total_ns, queue_ns=answer.queue_ns, times=answer.times
            )
            if _log.isEnabledFor(logging.DEBUG):
                text = "model '%s' version %d: %d rows in %.2f ms, %.2f of them waiting"
                name, version = served.model.name, served.model.version
                _log.debug(text, name, version, work.rows, total_ns / 1e6, answer.queue_ns / 1e6)
            return served, response, work, answer

    async def _run(
        self,
        served: ServedModel,
        request: pb.ModelInferRequest,
        remaining: float | None,
        trace: RequestTrace | None,
    ) -> tuple[pb.ModelInferResponse, Work, Answer]:
        batcher = served.batcher
        urgent = urgency(request, served.model.batching.queue, remaining)
        deadline = None if urgent.seconds is None else asyncio.get_running_loop().time() + urgent.seconds
        checked = check_request(request, served.model.signature, self._regions)
        batcher.check_admission(checked.rows, level=urgent.level)  # before the work of decoding is done for nothing
        work = await _off_loop(checked.large, partial(_decode, checked))
        if trace is not None:
            trace.admitted()
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
        return await _off_loop(is_large(answer.arrays), encode), work, answer

    def _was_replaced(self, served: ServedModel, request: pb.ModelInferRequest) -> bool:
        """Whether a request means another model by now than when it was looked up."""
        try:
            return self._models.find(request.model_name, request.model_version) is not served
        except MnServeError:
            return False


def _decode(checked: CheckedRequest) -> Work:
    decoded = checked.decode()
    work = Work(feeds=decoded.feeds, rows=decoded.rows, outputs=decoded.outputs)
    _ = work.nbytes  # counted here, where it holds up nobody
    return work


async def _off_loop(large: bool, function: Callable[[], _Result]) -> _Result:
    """Calls a function that depends on no other task: small work at once, large work in a thread."""
    return await asyncio.to_thread(function) if large else function()
