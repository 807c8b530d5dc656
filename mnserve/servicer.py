"""The calls of the protocol: find the model, decode, wait for the batcher, encode, and count what happened.

Method names are those of the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from functools import partial
from importlib.metadata import version as distribution_version
from typing import Any, Final, NoReturn, TypeVar

import grpc

from mnserve.codec import CheckedRequest, check_request
from mnserve.encoding import encode_response, is_large
from mnserve.errors import InvalidRequestError, MnServeError
from mnserve.execution import Work
from mnserve.models import Models, ServedModel
from mnserve.protocol import service_pb2 as pb
from mnserve.signature import TensorRule
from mnserve.status import PUSHBACK_KEY, failure_reason, pushback_ms, status_code
from mnserve.unsupported import UnsupportedCalls

__all__ = ["Servicer"]

_log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
_Result = TypeVar("_Result")

SERVER_NAME: Final = "mnserve"
EXTENSIONS: Final = ("model_configuration", "statistics")
"""Only what works."""
_MAX_DETAILS: Final = 2000


class Servicer(UnsupportedCalls):
    """Answers for the models of one server.

    Args:
        models: What is served.
        max_message_bytes: Largest answer; None for no limit.
    """

    def __init__(self, models: Models, max_message_bytes: int | None = None) -> None:
        self._models = models
        self._max_message_bytes = max_message_bytes

    async def ServerLive(self, request: pb.ServerLiveRequest, context: Context) -> pb.ServerLiveResponse:
        """True as long as the process answers at all."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: pb.ServerReadyRequest, context: Context) -> pb.ServerReadyResponse:
        """True if every model of the repository is ready and the server is not stopping."""
        return pb.ServerReadyResponse(ready=self._models.ready)

    async def ModelReady(self, request: pb.ModelReadyRequest, context: Context) -> pb.ModelReadyResponse:
        """Whether one model is ready; false for one that does not exist."""
        try:
            return pb.ModelReadyResponse(ready=self._models.is_ready(request.name, request.version))
        except MnServeError as error:
            await _fail(context, error)

    async def ServerMetadata(self, request: pb.ServerMetadataRequest, context: Context) -> pb.ServerMetadataResponse:
        """Name, version and the extensions that work."""
        return pb.ServerMetadataResponse(
            name=SERVER_NAME, version=distribution_version("mn-runtime"), extensions=EXTENSIONS
        )

    async def ModelMetadata(self, request: pb.ModelMetadataRequest, context: Context) -> pb.ModelMetadataResponse:
        """Versions, inputs and outputs of a model; shapes have the batch dimension."""
        served = await self._find(request, context)
        rules = served.model.signature

        def describe(rule: TensorRule) -> pb.ModelMetadataResponse.TensorMetadata:
            return pb.ModelMetadataResponse.TensorMetadata(
                name=rule.name, datatype=rule.datatype.name, shape=rules.full_shape(rule)
            )

        ready = [state for state in self._models.states() if state.name == request.name and state.served]
        return pb.ModelMetadataResponse(
            name=served.model.name,
            versions=[str(state.version) for state in ready],
            platform=served.model.config.platform,
            inputs=[describe(rule) for rule in rules.inputs],
            outputs=[describe(rule) for rule in rules.outputs],
        )

    async def ModelConfig(self, request: pb.ModelConfigRequest, context: Context) -> pb.ModelConfigResponse:
        """The configuration of a model with its gaps filled."""
        served = await self._find(request, context)
        return pb.ModelConfigResponse(config=served.model.config)

    async def ModelStatistics(self, request: pb.ModelStatisticsRequest, context: Context) -> pb.ModelStatisticsResponse:
        """Counters of one model, or of all where no name is given."""
        if not request.name:
            counters = self._models.counters()
        elif not request.version:
            await self._find(request, context)
            counters = [item for item in self._models.counters() if item.name == request.name]
        else:
            counters = [(await self._find(request, context)).counters]
        return pb.ModelStatisticsResponse(model_stats=[item.message() for item in counters])

    async def ModelInfer(self, request: pb.ModelInferRequest, context: Context) -> pb.ModelInferResponse:
        """Inference."""
        started = time.perf_counter_ns()
        served: ServedModel | None = None
        try:
            served = self._models.find(request.model_name, request.model_version)
            deadline = _deadline(request, context)
            checked = check_request(request, served.model.signature)
            served.batcher.check_admission(checked.rows)  # before the work of decoding is done for nothing
            work = await _off_loop(checked.large, partial(_decode, checked))
            answer = await served.batcher.infer(work, deadline=deadline)
            encode = partial(
                encode_response,
                signature=served.model.signature,
                version=served.model.version,
                request_id=request.id,
                names=work.outputs,
                arrays=answer.arrays,
                max_bytes=self._max_message_bytes,
            )
            response = await _off_loop(is_large(answer.arrays), encode)
        except asyncio.CancelledError:
            if served is not None:
                total = time.perf_counter_ns() - started
                served.counters.record_failure(reason="CANCELED", total_ns=total)
            raise
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            if served is not None:
                total = time.perf_counter_ns() - started
                served.counters.record_failure(reason=failure_reason(error), total_ns=total)
            await _fail(context, error)
        served.counters.record_success(
            rows=work.rows,
            total_ns=time.perf_counter_ns() - started,
            queue_ns=answer.queue_ns,
            times=answer.times,
        )
        return response

    async def _find(
        self,
        request: pb.ModelMetadataRequest | pb.ModelConfigRequest | pb.ModelStatisticsRequest,
        context: Context,
    ) -> ServedModel:
        try:
            return self._models.find(request.name, request.version)
        except MnServeError as error:
            await _fail(context, error)


def _decode(checked: CheckedRequest) -> Work:
    decoded = checked.decode()
    work = Work(feeds=decoded.feeds, rows=decoded.rows, outputs=decoded.outputs)
    _ = work.nbytes  # counted here, where it holds up nobody
    return work


async def _off_loop(large: bool, function: Callable[[], _Result]) -> _Result:
    """Calls a function that depends on no other task: small work at once, large work in a thread."""
    return await asyncio.to_thread(function) if large else function()


def _deadline(request: pb.ModelInferRequest, context: Context) -> float | None:
    """When this request's time is up on the event loop's clock: the sooner of gRPC's deadline and ``timeout``."""
    limits = []
    remaining = context.time_remaining()
    if remaining is not None:
        limits.append(remaining)
    if "timeout" in request.parameters:
        parameter = request.parameters["timeout"]
        kind = parameter.WhichOneof("parameter_choice")
        if kind not in ("int64_param", "uint64_param"):
            raise InvalidRequestError(f"parameter 'timeout' comes as {kind}, expected int64_param (microseconds)")
        microseconds: int = getattr(parameter, kind)
        if microseconds < 0:
            raise InvalidRequestError(f"parameter 'timeout' is {microseconds}, expected 0 (none) or more microseconds")
        if microseconds > 0:
            limits.append(microseconds / 1e6)
    return asyncio.get_running_loop().time() + min(limits) if limits else None


async def _fail(context: Context, error: Exception) -> NoReturn:
    """Ends a call with the status that belongs to the error. INTERNAL gets an id that the log has too."""
    code = status_code(error)
    details = str(error)
    if code is grpc.StatusCode.INTERNAL:
        error_id = uuid.uuid4().hex[:12]
        _log.error("internal error %s", error_id, exc_info=error)
        known = f"{details}; " if isinstance(error, MnServeError) else ""
        details = f"{known}internal error {error_id}, the server's log has the details under this id"
    delay = pushback_ms(error)
    trailing = () if delay is None else ((PUSHBACK_KEY, str(delay)),)
    details = details[:_MAX_DETAILS].encode("utf-8", "backslashreplace").decode("utf-8")  # gRPC hangs on anything else
    await context.abort(code, details, trailing)
