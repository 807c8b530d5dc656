"""The calls of the protocol. Method names are those of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from importlib.metadata import version as distribution_version
from typing import Any, Final

import grpc

from mnserve.control import check_asked_for
from mnserve.errors import MnServeError, StoppingError, UnsupportedError
from mnserve.failing import fail, refusal
from mnserve.inference import Inference
from mnserve.models import Models, ServedModel
from mnserve.protocol import service_pb2 as pb
from mnserve.settings import Control
from mnserve.shared_memory import Region, Regions
from mnserve.signature import TensorRule
from mnserve.streaming import answer_in_order
from mnserve.unsupported import UnsupportedCalls

__all__ = ["Servicer"]

Context = grpc.aio.ServicerContext[Any, Any]

FINAL_ASKED: Final = "triton_enable_empty_final_response"
"""Parameter of a request in a stream whose client wants to be told which answer is the last of a request's."""
FINAL: Final = "triton_final_response"
"""Parameter of such an answer. Here every request has one answer, which is its last."""
SERVER_NAME: Final = "mnserve"
EXTENSIONS: Final = ("model_configuration", "statistics", "schedule_policy")
"""Only what works."""


class Servicer(UnsupportedCalls):
    """Answers for the models of one server.

    Args:
        models: What is served.
        max_message_bytes: Largest answer; None for no limit.
        control: Who decides which models are served.
        regions: Shared memory of callers on this machine; None where it is not offered.
    """

    def __init__(
        self,
        models: Models,
        max_message_bytes: int | None = None,
        *,
        control: Control = "none",
        regions: Regions | None = None,
    ) -> None:
        self._models = models
        self._control: Control = control
        self._regions = regions
        self._inference = Inference(models, max_message_bytes, regions)

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
            await fail(context, error)

    async def ServerMetadata(self, request: pb.ServerMetadataRequest, context: Context) -> pb.ServerMetadataResponse:
        """Name, version and the extensions that work."""
        return pb.ServerMetadataResponse(
            name=SERVER_NAME,
            version=distribution_version("mn-runtime"),
            extensions=[
                *EXTENSIONS,
                *(["model_repository"] if self._control == "explicit" else []),
                *(["system_shared_memory"] if self._regions is not None else []),
            ],
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
        try:
            return await self._inference.answer(request, context.time_remaining())
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await fail(context, error)

    async def ModelStreamInfer(self, requests: AsyncIterator[pb.ModelInferRequest], context: Context) -> None:
        """Inference over a stream: every request gets one answer, in the order of the requests. One that fails gets a
        message instead, and the stream goes on."""

        async def answer(request: pb.ModelInferRequest) -> pb.ModelStreamInferResponse:
            try:
                response = await self._inference.answer(request, context.time_remaining())
            except Exception as error:  # noqa: BLE001 (every error becomes a message)
                response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
                return pb.ModelStreamInferResponse(error_message=refusal(error).details, infer_response=response)
            if FINAL_ASKED in request.parameters and request.parameters[FINAL_ASKED].bool_param:
                response.parameters[FINAL].bool_param = True
            return pb.ModelStreamInferResponse(infer_response=response)

        ended = await answer_in_order(requests, answer, context.write, enough=self._models.closing)
        if not ended:
            await fail(context, StoppingError("the server is stopping; open the stream again, at another server"))

    async def RepositoryIndex(self, request: pb.RepositoryIndexRequest, context: Context) -> pb.RepositoryIndexResponse:
        """Every model and version with its state; with ``ready`` those alone that answer."""
        try:
            _check_repository(request.repository_name)
        except MnServeError as error:
            await fail(context, error)
        return pb.RepositoryIndexResponse(
            models=[
                pb.RepositoryIndexResponse.ModelIndex(
                    name=state.name,
                    version="" if state.version is None else str(state.version),
                    state="READY" if state.ready else "UNAVAILABLE",
                    reason=state.reason,
                )
                for state in self._models.states()
                if state.ready or not request.ready
            ]
        )

    async def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest, context: Context
    ) -> pb.RepositoryModelLoadResponse:
        """Loads a model, or loads it again; answers once it is served."""
        try:
            check_asked_for(self._control)
            _check_repository(request.repository_name)
            _check_parameters(request.parameters, ())
            await self._models.load(request.model_name)
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await fail(context, error)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest, context: Context
    ) -> pb.RepositoryModelUnloadResponse:
        """Takes a model out; what it had admitted is still answered after this."""
        try:
            check_asked_for(self._control)
            _check_repository(request.repository_name)
            _check_parameters(request.parameters, ("unload_dependents",))  # no model here depends on another
            await self._models.unload(request.model_name)
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await fail(context, error)
        return pb.RepositoryModelUnloadResponse()

    async def SystemSharedMemoryStatus(
        self, request: pb.SystemSharedMemoryStatusRequest, context: Context
    ) -> pb.SystemSharedMemoryStatusResponse:
        """One region of shared memory, or all where no name is given."""
        response = pb.SystemSharedMemoryStatusResponse()
        try:
            for name, region in self._shared_memory().status(request.name).items():
                status = response.regions[name]
                status.name, status.key = region.name, region.key
                status.offset, status.byte_size = region.offset, region.byte_size
        except MnServeError as error:
            await fail(context, error)
        return response

    async def SystemSharedMemoryRegister(
        self, request: pb.SystemSharedMemoryRegisterRequest, context: Context
    ) -> pb.SystemSharedMemoryRegisterResponse:
        """Makes a region known."""
        region = Region(name=request.name, key=request.key, offset=request.offset, byte_size=request.byte_size)
        try:
            self._shared_memory().register(region)
        except MnServeError as error:
            await fail(context, error)
        return pb.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest, context: Context
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        """Forgets one region, or all where no name is given."""
        try:
            self._shared_memory().unregister(request.name)
        except MnServeError as error:
            await fail(context, error)
        return pb.SystemSharedMemoryUnregisterResponse()

    def _shared_memory(self) -> Regions:
        if self._regions is None:
            raise UnsupportedError(
                "shared memory is switched off; start the server with --shared-memory on, or send tensors as they are"
            )
        return self._regions

    async def _find(
        self,
        request: pb.ModelMetadataRequest | pb.ModelConfigRequest | pb.ModelStatisticsRequest,
        context: Context,
    ) -> ServedModel:
        try:
            return self._models.find(request.name, request.version)
        except MnServeError as error:
            await fail(context, error)


def _check_repository(name: str) -> None:
    if name:
        raise UnsupportedError(f"repository_name is '{name[:64]}', but there is one repository; leave it out")


def _check_parameters(parameters: Mapping[str, Any], known: Collection[str]) -> None:
    for name in parameters:
        if name not in known:
            raise UnsupportedError(
                f"the parameter '{name[:64]}' is not supported: models are loaded as they are in the repository"
            )
