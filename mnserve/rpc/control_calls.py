"""Calls that administer a server: its models, shared memory, the log, and traces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.codec.shared_memory import Regions
from mnserve.errors import InvalidRequestError, MnServeError, UnknownRegionError, UnsupportedError
from mnserve.failing import fail
from mnserve.models.catalogue import Catalogue
from mnserve.observability.log_settings import LogControl
from mnserve.observability.tracing import Tracing
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.config_override import parse_override
from mnserve.rpc.process_settings import ProcessSettings
from mnserve.rpc.streaming import StreamMemory
from mnserve.rpc.unimplemented_calls import UnimplementedCalls
from mnserve.settings import Control
from mnserve.text.names import printable, shortened

Context = grpc.aio.ServicerContext[Any, Any]

_CONFIG: Final = "config"
_EXPLICIT: Final = "explicit"
_LOG_PARAMETERS: Final = {bool: "bool_param", int: "uint32_param", str: "string_param"}


async def _alone(_method: str, _message: bytes) -> None:
    """Tells nobody, where this process takes all calls."""


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Services for callers beside inference.

    Attributes:
        name: Name of the server, for callers.
        control: Decides which models are served.
        regions: Shared memory of callers on this machine; None where it is not offered.
        log: Log settings that callers may change; None where they may not.
        tracing: Sends spans of requests; None where nothing is traced.
        limits: Limits of requests of each caller; None for no limit.
        by_token: Tell callers apart by their tokens, and not by their addresses.
        refused: Counts the calls that no model was asked for; None counts nothing.
        stream_memory: Memory of the requests and answers of all streams.
        spread: Has a call that changes settings of this process change those of the other front ends as well: its name
            and its message.
    """

    name: str = "mnserve"
    control: Control = "none"
    regions: Regions | None = None
    log: LogControl | None = None
    tracing: Tracing | None = None
    limits: RateLimits | None = None
    by_token: bool = False
    refused: RefusedCalls | None = None
    stream_memory: StreamMemory = field(default_factory=StreamMemory)
    spread: Callable[[str, bytes], Awaitable[None]] = _alone

    @property
    def extensions(self) -> list[str]:
        """Names of those extensions of the protocol that work."""
        working = {
            "model_repository": self.control == "explicit",
            "model_repository(unload_dependents)": self.control == "explicit",
            "system_shared_memory": self.regions is not None,
            "logging": self.log is not None,
            "trace": self.tracing is not None,
        }
        return [name for name, works in working.items() if works]


class ControlCalls(UnimplementedCalls):
    """Answers the calls that administer one server.

    Args:
        models: The served models.
        offered: Services beside inference.
    """

    def __init__(self, models: Catalogue, offered: ServiceOptions) -> None:
        self._models = models
        self._offered = offered
        self.settings = ProcessSettings(offered.regions, offered.log, offered.tracing)
        """Settings of this process that callers change."""

    async def RepositoryIndex(self, request: pb.RepositoryIndexRequest, context: Context) -> pb.RepositoryIndexResponse:
        """Lists every model and version with its state; with ``ready`` only those that answer."""
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
                    reason=printable(state.reason),
                )
                for state in self._models.states()
                if state.ready or not request.ready
            ]
        )

    async def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest, context: Context
    ) -> pb.RepositoryModelLoadResponse:
        """Loads a model, or loads it again; answers once it is served.

        The configuration is that of the repository, or one that the call brings.
        """
        try:
            _check_explicit(self._offered.control)
            _check_repository(request.repository_name)
            _check_parameters(request.parameters, (_CONFIG,))
        except MnServeError as error:
            await fail(context, error)
        try:
            override = await asyncio.to_thread(_override, request) if request.parameters else None
            await self._models.load(request.model_name, override)
        except MnServeError as error:
            # Clients look for these words of Triton's.
            await fail(context, type(error)(f"failed to load '{printable(shortened(request.model_name))}': {error}"))
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await fail(context, error)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest, context: Context
    ) -> pb.RepositoryModelUnloadResponse:
        """Takes a model out; requests that it had admitted are still answered after this."""
        try:
            _check_explicit(self._offered.control)
            _check_repository(request.repository_name)
            _check_parameters(request.parameters, ("unload_dependents",))  # no model here depends on another
            await self._models.unload(request.model_name)
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await fail(context, error)
        return pb.RepositoryModelUnloadResponse()

    async def SystemSharedMemoryStatus(
        self, request: pb.SystemSharedMemoryStatusRequest, context: Context
    ) -> pb.SystemSharedMemoryStatusResponse:
        """Lists one region of shared memory, or all where no name is given; none where it is switched off."""
        response = pb.SystemSharedMemoryStatusResponse()
        try:
            for name, region in (self._offered.regions or Regions()).status(request.name).items():
                status = response.regions[name]
                status.name, status.key = region.name, region.key
                status.offset, status.byte_size = region.offset, region.byte_size
        except MnServeError as error:
            await fail(context, error)
        return response

    async def SystemSharedMemoryRegister(
        self, request: pb.SystemSharedMemoryRegisterRequest, context: Context
    ) -> pb.SystemSharedMemoryRegisterResponse:
        """Registers a region."""
        try:
            self.settings.register(request)
            await self._offered.spread("SystemSharedMemoryRegister", request.SerializeToString())
        except MnServeError as error:
            await fail(context, error)
        return pb.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest, context: Context
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        """Forgets one region, or all where no name is given; an unknown one is forgotten already."""
        try:
            self.settings.unregister(request)
            await self._offered.spread("SystemSharedMemoryUnregister", request.SerializeToString())
        except MnServeError as error:
            await fail(context, error)
        return pb.SystemSharedMemoryUnregisterResponse()

    async def CudaSharedMemoryStatus(
        self, request: pb.CudaSharedMemoryStatusRequest, context: Context
    ) -> pb.CudaSharedMemoryStatusResponse:
        """Lists no region: memory of a GPU cannot be registered."""
        if request.name:
            await fail(context, UnknownRegionError(f"there is no CUDA shared memory region '{request.name[:64]}'"))
        return pb.CudaSharedMemoryStatusResponse()

    async def CudaSharedMemoryUnregister(
        self, request: pb.CudaSharedMemoryUnregisterRequest, context: Context
    ) -> pb.CudaSharedMemoryUnregisterResponse:
        """Does nothing, as for every unknown region: clients begin with it before they use shared memory at all."""
        return pb.CudaSharedMemoryUnregisterResponse()

    async def LogSettings(self, request: pb.LogSettingsRequest, context: Context) -> pb.LogSettingsResponse:
        """Changes the log settings that the request names, and lists all."""
        try:
            log = self.settings.change_log(request)
            if request.settings:
                await self._offered.spread("LogSettings", request.SerializeToString())
        except MnServeError as error:
            await fail(context, error)
        response = pb.LogSettingsResponse()
        for name, value in log.settings().items():
            setattr(response.settings[name], _LOG_PARAMETERS[type(value)], value)
        return response

    async def TraceSetting(self, request: pb.TraceSettingRequest, context: Context) -> pb.TraceSettingResponse:
        """Changes the trace settings that the request names, and lists those of one model, or of all."""
        try:
            if request.model_name and self._offered.tracing is not None:
                self._models.check_known(request.model_name)
            settings = self.settings.change_traces(request)
            if request.settings:
                await self._offered.spread("TraceSetting", request.SerializeToString())
        except MnServeError as error:
            await fail(context, error)
        response = pb.TraceSettingResponse()
        for name, values in settings.of(request.model_name).values().items():
            response.settings[name].value.extend(values)
        return response


def _check_explicit(control: Control) -> None:
    if control != _EXPLICIT:
        raise UnsupportedError(
            f"callers load and unload models with --model-control {_EXPLICIT} alone, and this server has {control}"
        )


def _check_repository(name: str) -> None:
    if name:
        raise UnsupportedError(f"repository_name is '{name[:64]}', but there is one repository; leave it out")


def _override(request: pb.RepositoryModelLoadRequest) -> ModelConfig | None:
    """Reads the configuration that a call brings; None where it brings none."""
    if _CONFIG not in request.parameters:
        return None
    parameter = request.parameters[_CONFIG]
    kind = parameter.WhichOneof("parameter_choice")
    if kind != "string_param":
        raise InvalidRequestError(f"the parameter '{_CONFIG}' comes as {kind or 'nothing'}, expected string_param")
    return parse_override(parameter.string_param, request.model_name)


def _check_parameters(parameters: Mapping[str, Any], known: Collection[str]) -> None:
    for name in parameters:
        if name not in known:
            raise UnsupportedError(
                f"the parameter '{name[:64]}' is not supported; leave it out: the files of a model are those in the "
                "repository"
            )
