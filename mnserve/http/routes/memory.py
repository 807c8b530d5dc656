"""Routes of shared memory."""

from __future__ import annotations

from typing import Any

from starlette.routing import BaseRoute

from mnserve.errors import InvalidRequestError
from mnserve.http.answers import HttpAnswer, json_answer
from mnserve.http.calls import Call, Request
from mnserve.http.payloads.messages import message_content
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices
from mnserve.protocol import service_pb2 as pb

_READ, _WRITE = ["GET"], ["POST"]
_LARGEST = 2**64


def memory_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of shared memory, of this machine and of its GPUs."""
    status = Call(services, _status, right="SystemSharedMemoryStatus")
    register = Call(services, _register, right="SystemSharedMemoryRegister")
    unregister = Call(services, _unregister, right="SystemSharedMemoryUnregister")
    cuda_status = Call(services, _cuda_status, right="CudaSharedMemoryStatus")
    cuda_register = Call(services, _cuda_register, right="CudaSharedMemoryRegister")
    cuda_unregister = Call(services, _cuda_unregister, right="CudaSharedMemoryUnregister")
    system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
    return [
        JsonRoute(f"{system}/status", status, methods=_READ),
        JsonRoute(f"{system}/region/{{region}}/status", status, methods=_READ),
        JsonRoute(f"{system}/region/{{region}}/register", register, methods=_WRITE),
        JsonRoute(f"{system}/unregister", unregister, methods=_WRITE),
        JsonRoute(f"{system}/region/{{region}}/unregister", unregister, methods=_WRITE),
        JsonRoute(f"{cuda}/status", cuda_status, methods=_READ),
        JsonRoute(f"{cuda}/region/{{region}}/status", cuda_status, methods=_READ),
        JsonRoute(f"{cuda}/region/{{region}}/register", cuda_register, methods=_WRITE),
        JsonRoute(f"{cuda}/unregister", cuda_unregister, methods=_WRITE),
        JsonRoute(f"{cuda}/region/{{region}}/unregister", cuda_unregister, methods=_WRITE),
    ]


async def _status(request: Request) -> HttpAnswer:
    message = pb.SystemSharedMemoryStatusRequest(name=request.path.get("region", ""))
    response = await request.ask(request.calls.SystemSharedMemoryStatus, message)
    return json_answer([message_content(region) for region in response.regions.values()])


async def _register(request: Request) -> HttpAnswer:
    content = request.json()
    key = content.get("key", "")
    if not isinstance(key, str):
        raise InvalidRequestError("the field key is no text; write the name of the shared memory in quotes")
    message = pb.SystemSharedMemoryRegisterRequest(
        name=request.path["region"], key=key, offset=_size(content, "offset", 0), byte_size=_size(content, "byte_size")
    )
    await request.ask(request.calls.SystemSharedMemoryRegister, message)
    return json_answer({})


def _size(content: dict[str, Any], name: str, default: int | None = None) -> int:
    value = content.get(name, default)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise InvalidRequestError(f"the field {name} is no whole number of bytes from 0 on")
    return value


async def _unregister(request: Request) -> HttpAnswer:
    message = pb.SystemSharedMemoryUnregisterRequest(name=request.path.get("region", ""))
    await request.ask(request.calls.SystemSharedMemoryUnregister, message)
    return json_answer({})


async def _cuda_status(request: Request) -> HttpAnswer:
    message = pb.CudaSharedMemoryStatusRequest(name=request.path.get("region", ""))
    await request.ask(request.calls.CudaSharedMemoryStatus, message)
    return json_answer([])


async def _cuda_register(request: Request) -> HttpAnswer:
    message = pb.CudaSharedMemoryRegisterRequest(name=request.path["region"])
    await request.ask(request.calls.CudaSharedMemoryRegister, message)
    return json_answer({})


async def _cuda_unregister(request: Request) -> HttpAnswer:
    message = pb.CudaSharedMemoryUnregisterRequest(name=request.path.get("region", ""))
    await request.ask(request.calls.CudaSharedMemoryUnregister, message)
    return json_answer({})
