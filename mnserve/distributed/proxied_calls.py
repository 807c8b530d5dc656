"""Calls that reach a replica through Ray Serve's proxies: the handlers of our own server, behind another transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeAlias

import grpc

from mnserve.access.call_limits import CallLimits
from mnserve.distributed.calls import HEALTH_CHECK, STREAM
from mnserve.distributed.guard import Guard
from mnserve.distributed.proxied_context import ProxiedContext, ProxiedStream, ServeContext, StreamEndedError
from mnserve.errors import MnServeError
from mnserve.failing import ended, fail
from mnserve.models.catalogue import Catalogue
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mnserve.rpc.control_calls import ServiceOptions
from mnserve.rpc.health import Health
from mnserve.rpc.messages import LargeMessages, checked
from mnserve.rpc.servicer import Context, Servicer
from mnserve.rpc.unimplemented_calls import refused_call

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Gather: TypeAlias = Callable[[str, str], Awaitable[list[pb.ModelStatistics]]]
"""Gets the counters of a model and a version from all replicas; empty names mean all."""

_REMEDY: Final = "a call through Ray Serve's proxy reaches one replica of several"


class ProxiedOptions(ServiceOptions):
    """Services that a caller gets through a proxy."""

    @property
    def extensions(self) -> list[str]:
        """None: those beside inference and its metadata need to reach every replica, or the machine of one."""
        return []

    @classmethod
    def of(cls, offered: ServiceOptions) -> ProxiedOptions:
        """Leaves out what does not go through a proxy."""
        values = {item.name: getattr(offered, item.name) for item in fields(offered)}
        return cls(**{**values, "control": "none", "regions": None, "log": None})


class ProxiedServicer(Servicer):
    """Answers the calls of the protocol for all replicas of the same models.

    Args:
        models: Models of this replica.
        max_message_bytes: Largest answer.
        offered: Services beside inference.
        gather: Gets the counters of all replicas.
    """

    def __init__(self, models: Catalogue, max_message_bytes: int, offered: ServiceOptions, gather: Gather) -> None:
        super().__init__(models, max_message_bytes, offered)
        self._gather = gather

    RepositoryModelLoad = refused_call(
        "RepositoryModelLoad", f"{_REMEDY}; change the repository, and run `mnserve ray` or `serve deploy` again"
    )
    RepositoryModelUnload = refused_call(
        "RepositoryModelUnload", f"{_REMEDY}; change the repository, and run `mnserve ray` or `serve deploy` again"
    )
    LogSettings = refused_call("LogSettings", f"{_REMEDY}; start the replicas with --log-level")
    TraceSetting = refused_call("TraceSetting", f"{_REMEDY}; start the replicas with --trace-endpoint and --trace-rate")

    async def ModelStatistics(self, request: pb.ModelStatisticsRequest, context: Context) -> pb.ModelStatisticsResponse:
        """Gives the counters of one model, or of all where no name is given: the sums of all replicas."""
        try:
            if request.name:
                self._models.find(request.name, request.version)  # the same errors as at one server
            return pb.ModelStatisticsResponse(model_stats=await self._gather(request.name, request.version))
        except MnServeError as error:
            await fail(context, error)


class ProxiedCalls:
    """Answers calls by name, from their bytes to those of the answer.

    Args:
        servicer: Answers the calls of the protocol.
        health: Answers health checks.
        limits: Bounds of the calls in progress, shared with the port of the replica.
        guard: Checks the tokens of calls.
    """

    def __init__(self, servicer: Servicer, health: Health, limits: CallLimits, guard: Guard) -> None:
        self._limits, self._health = limits, health
        self.guard = guard
        """Checks the tokens of calls."""
        registered: dict[str, Handler] = {}
        collector = _Collector(registered)
        add_GRPCInferenceServiceServicer_to_server(servicer, collector)
        health.add_to(collector)  # type: ignore[arg-type]
        shared = LargeMessages()
        self._handlers: dict[str, Any] = {
            name: checked(handler, shared, servicer if name == "ModelInfer" else None)
            for name, handler in registered.items()
        }

    async def answer(self, name: str, data: bytes, context: ServeContext) -> bytes:
        """Answers a call; the status of one that fails is in its context.

        Args:
            name: Name of the call.
            data: Its message.
            context: Context of Ray Serve.
        """
        proxied = ProxiedContext(context)
        handler = self._handlers[name]
        try:
            self._admit(name, proxied)
            self.guard.check_size(name, data)
            if name == HEALTH_CHECK:
                self._health.update()  # names of models that were loaded since
            response = await handler.unary_unary(data, proxied)
            serialized: bytes = response if isinstance(response, bytes) else handler.response_serializer(response)
            return serialized
        except grpc.aio.AbortError:
            pass
        except Exception as error:  # noqa: BLE001 (every error becomes a status)
            await ended(proxied, error)
        return b""

    async def answer_stream(self, requests: AsyncIterator[bytes], context: ServeContext) -> AsyncIterator[bytes]:
        """Answers a stream of requests, in their order.

        Raises:
            StreamEndedError: The stream ends with the status in its context.
        """
        stream = ProxiedStream(context, self._sized(requests))
        try:
            try:
                self._admit(STREAM, stream)
            except MnServeError as error:
                await fail(stream, error)  # type: ignore[arg-type]
            async for response in stream.answers(self._handlers[STREAM]):
                yield response
        except grpc.aio.AbortError:
            raise StreamEndedError from None

    async def _sized(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for data in requests:
            self.guard.check_size(STREAM, data)
            yield data

    def _admit(self, name: str, context: ProxiedContext) -> None:
        """Checks the token of a call, and gives it a place among those in progress."""
        self.guard.check(name, context)
        if name in ("ModelInfer", STREAM):
            calls, task = self._limits.inference, asyncio.current_task()
            if not calls.has_room():
                raise calls.refusal()
            if task is not None:
                calls.begin(task)


class _Collector:
    """Takes the place of a server in the functions of generated code that add a service to one."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers

    def add(self, add_to_server: Callable[[Any, Any], None], servicer: object) -> None:
        add_to_server(servicer, self)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        pass

    def add_registered_method_handlers(self, _service: str, method_handlers: Mapping[str, Handler]) -> None:
        self._handlers |= method_handlers
