"""Registration of generated services at a server of grpc.aio: checked, and at the least cost for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import grpc

from mnserve.access.authorization import PUBLIC
from mnserve.access.call_limits import CallLimits
from mnserve.rpc.messages import CheckedService, KnownForms, LargeMessages
from mnserve.rpc.small_calls import SmallCalls

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

PROBES: Final = PUBLIC | {"/inference.GRPCInferenceService/ModelReady"}
"""Calls that must not queue behind inference to be accepted."""


class Services:
    """Takes the place of the server in an ``add_..._to_server`` function of generated code.

    Generated code registers every method twice: with a generic handler, and with a queue of its own for calls that
    arrive. The event loop looks at each of those queues for every call that arrives at any. That took a tenth of the
    time of a small call, so only probes get a queue here. Limits and checks of messages come with the handlers, since
    an interceptor would be asked for every call.

    Args:
        server: The server, before it is started.
        limits: Bounds of the calls in progress; None for those of a server without options.
        inference: Answers calls of inference whose messages have known forms; None parses each of them.
    """

    def __init__(
        self, server: grpc.aio.Server, limits: CallLimits | None = None, inference: KnownForms | None = None
    ) -> None:
        self._server = server
        limits = CallLimits() if limits is None else limits
        self._shared = LargeMessages()
        self._small = SmallCalls(limits, self._shared.heap).handler
        self._known = {} if inference is None else {"/inference.GRPCInferenceService/ModelInfer": inference}
        self._large = {
            "/inference.GRPCInferenceService/ModelInfer": limits.inference,
            "/inference.GRPCInferenceService/ModelStreamInfer": limits.inference,
            "/inference.GRPCInferenceService/RepositoryModelLoad": limits.loads,
        }

    def add(self, add_to_server: Callable[[Any, Any], None], servicer: object) -> None:
        """Lets a function of generated code add its service."""
        add_to_server(servicer, self)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """See :meth:`grpc.aio.Server.add_generic_rpc_handlers`."""
        self._server.add_generic_rpc_handlers(
            tuple(
                CheckedService(handler, self._small, self._large, self._shared, self._known)
                for handler in generic_rpc_handlers
            )
        )

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, Handler]) -> None:
        """See :meth:`grpc.aio.Server.add_registered_method_handlers`."""
        probes = {
            name: self._small(handler)
            for name, handler in method_handlers.items()
            if f"/{service_name}/{name}" in PROBES
        }
        if probes:
            self._server.add_registered_method_handlers(service_name, probes)
