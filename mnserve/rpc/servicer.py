"""Calls of the protocol: health, metadata and inference; ControlCalls adds those that administer.

Method names are those of the protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from importlib.metadata import version as distribution_version
from typing import Any, Final

import grpc

from mnserve.access.caller_identity import caller_of
from mnserve.codec.known_forms import MAX_BYTES, RequestForms
from mnserve.codec.signature import TensorRule
from mnserve.errors import MnServeError, StoppingError
from mnserve.failing import drop_frames, fail, refusal
from mnserve.models.catalogue import Catalogue, Endpoint
from mnserve.protocol import service_pb2 as pb
from mnserve.rpc.control_calls import ControlCalls, ServiceOptions
from mnserve.rpc.inference import Inference
from mnserve.rpc.streaming import StreamedRequest, answer_in_order

Context = grpc.aio.ServicerContext[Any, Any]

FINAL_ASKED: Final = "triton_enable_empty_final_response"
"""Parameter of a request in a stream whose client wants its last answer marked."""
FINAL: Final = "triton_final_response"
"""Parameter that marks the last answer of a request. Here every request has one answer, which is its last."""
EXTENSIONS: Final = ("classification", "model_configuration", "statistics", "schedule_policy")
"""Extensions of the protocol that work."""


class Servicer(ControlCalls):
    """Answers the calls to the models of one server.

    Args:
        models: The served models.
        max_message_bytes: Largest answer; None for no limit.
        offered: Services beside inference.
    """

    def __init__(
        self, models: Catalogue, max_message_bytes: int | None = None, offered: ServiceOptions | None = None
    ) -> None:
        super().__init__(models, offered or ServiceOptions())
        # Traces and limits of rates look at the message and its sender.
        self._forms = RequestForms() if self._offered.tracing is None and self._offered.limits is None else None
        self._inference = Inference(
            models, max_message_bytes, self._offered.regions, self._offered.limits, self._offered.refused
        )

    def answer_known(self, data: bytes, context: Context) -> Awaitable[Any] | None:
        """Answers a request of a form that was answered before; None, at once or in the end, for any other."""
        if self._forms is None or (known := self._forms.find(data)) is None:
            return None
        return self._inference.answer_known(known, context.time_remaining())

    def learn(self, data: bytes, message: pb.ModelInferRequest) -> None:
        """Remembers the form of a request that was answered."""
        if self._forms is not None and len(data) <= MAX_BYTES:
            with suppress(MnServeError):  # the model has gone since
                self._forms.learn(data, message, self._models.find(message.model_name, message.model_version).signature)

    async def ServerLive(self, request: pb.ServerLiveRequest, context: Context) -> pb.ServerLiveResponse:
        """Tells that the process answers at all."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, request: pb.ServerReadyRequest, context: Context) -> pb.ServerReadyResponse:
        """Tells if every model of the repository is ready and the server is not stopping."""
        return pb.ServerReadyResponse(ready=self._models.ready)

    async def ModelReady(self, request: pb.ModelReadyRequest, context: Context) -> pb.ModelReadyResponse:
        """Tells if one model is ready; a model that does not exist is not."""
        try:
            return pb.ModelReadyResponse(ready=self._models.is_ready(request.name, request.version))
        except MnServeError as error:
            await fail(context, error)

    async def ServerMetadata(self, request: pb.ServerMetadataRequest, context: Context) -> pb.ServerMetadataResponse:
        """Tells name, version and the extensions that work."""
        return pb.ServerMetadataResponse(
            name=self._offered.name,
            version=distribution_version("mn-runtime"),
            extensions=[*EXTENSIONS, *self._offered.extensions],
        )

    async def ModelMetadata(self, request: pb.ModelMetadataRequest, context: Context) -> pb.ModelMetadataResponse:
        """Describes versions, inputs and outputs of a model; shapes have the batch dimension."""
        served = await self._find(request, context)
        signature = served.signature

        def describe(rule: TensorRule) -> pb.ModelMetadataResponse.TensorMetadata:
            return pb.ModelMetadataResponse.TensorMetadata(
                name=rule.name, datatype=rule.datatype.name, shape=signature.full_shape(rule)
            )

        ready = [state for state in self._models.states() if state.name == request.name and state.served]
        return pb.ModelMetadataResponse(
            name=served.name,
            versions=[str(state.version) for state in ready],
            platform=served.config.platform,
            inputs=[describe(rule) for rule in signature.inputs],
            outputs=[describe(rule) for rule in signature.outputs],
        )

    async def ModelConfig(self, request: pb.ModelConfigRequest, context: Context) -> pb.ModelConfigResponse:
        """Gives the configuration of a model with its gaps filled."""
        served = await self._find(request, context)
        return pb.ModelConfigResponse(config=served.config)

    async def ModelStatistics(self, request: pb.ModelStatisticsRequest, context: Context) -> pb.ModelStatisticsResponse:
        """Gives the counters of one model, or of all where no name is given."""
        try:
            return pb.ModelStatisticsResponse(model_stats=await self._models.statistics(request.name, request.version))
        except MnServeError as error:
            await fail(context, error)

    async def ModelInfer(self, request: pb.ModelInferRequest, context: Context) -> pb.ModelInferResponse:
        """Runs inference for one request."""
        try:
            return await self._answer("ModelInfer", request, context)
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await fail(context, error)

    async def ModelStreamInfer(self, requests: AsyncIterator[pb.ModelInferRequest], context: Context) -> None:
        """Runs inference over a stream: every request gets one answer, in the order of the requests.

        A request that fails gets a message instead, and the stream goes on.
        """

        async def answer(request: pb.ModelInferRequest, streamed: StreamedRequest) -> pb.ModelStreamInferResponse:
            try:
                response = await self._answer("ModelStreamInfer", request, context, streamed)
            except Exception as error:  # noqa: BLE001 (every error becomes a message)
                response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
                details = refusal(error).details
                drop_frames(error)
                streamed.answered(len(request.model_name) + len(request.id))
                return pb.ModelStreamInferResponse(error_message=details, infer_response=response)
            if FINAL_ASKED in request.parameters and request.parameters[FINAL_ASKED].bool_param:
                response.parameters[FINAL].bool_param = True
            return pb.ModelStreamInferResponse(infer_response=response)

        ended = await answer_in_order(
            requests, answer, context.write, enough=self._models.closing, memory=self._offered.stream_memory
        )
        if not ended:
            await fail(context, StoppingError("the server is stopping; open the stream again, at another server"))

    async def _answer(
        self, method: str, request: pb.ModelInferRequest, context: Context, streamed: StreamedRequest | None = None
    ) -> pb.ModelInferResponse:
        offered, trace = self._offered, None
        caller: bytes | str = ""
        if offered.tracing is not None:
            metadata = context.invocation_metadata() or ()
            trace = offered.tracing.begin(method, request.model_name, request.id, metadata)
        if offered.limits is not None:
            caller = caller_of(context, by_token=offered.by_token)
        return await self._inference.answer(
            request, remaining=context.time_remaining(), trace=trace, caller=caller, streamed=streamed
        )

    async def _find(
        self,
        request: pb.ModelMetadataRequest | pb.ModelConfigRequest,
        context: Context,
    ) -> Endpoint:
        try:
            return self._models.find(request.name, request.version)
        except MnServeError as error:
            await fail(context, error)
