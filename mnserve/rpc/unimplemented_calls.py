"""Calls of the protocol that this server does not offer: each answers UNIMPLEMENTED."""

from __future__ import annotations

from typing import Any

import grpc

from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceServicer


def refused_call(name: str, remedy: str) -> Any:
    """Makes the method of a servicer that refuses a call.

    Args:
        name: Name of the call.
        remedy: What a caller may do instead.
    """

    async def refuse(_self: Any, _request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"this server does not offer {name}; {remedy}")

    return refuse


class UnimplementedCalls(GRPCInferenceServiceServicer):
    """Base of the servicer: refuses the calls that no subclass defines."""

    CudaSharedMemoryRegister = refused_call(
        "CudaSharedMemoryRegister", "use system shared memory, or send tensors as they are"
    )
