"""The calls of the protocol in Ray Serve's gRPC proxies: ``grpc_servicer_functions`` names ``add_to_server``.

A proxy takes the calls of the services that it is given, and answers each through a replica. It tells a caller of a
replica that has died as INTERNAL, which a client does not try again. Here that becomes UNAVAILABLE.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, TypeAlias

import grpc

from mnserve.distributed.calls import HEALTH, HEALTH_CHECK, LIST, OWN_STATUS, PROTOCOL, REPLICAS, STREAM, UNARY
from mnserve.distributed.proxied_context import Status
from mnserve.status import PUSHBACK_KEY

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_PUSHBACK_MS: Final = 250
"""Other replicas are there at once, and the proxy has to hear of the loss, which may take it seconds."""
_MOST_DOUBLINGS: Final = 3
_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}
_ATTEMPTS_KEY: Final = "grpc-previous-rpc-attempts"
"""Key of the metadata by which gRPC tells how often it has tried a call before."""


def lost_status(metadata: Iterable[tuple[str, str | bytes]]) -> Status:
    """Returns the status of a call whose replica has gone: each further attempt is to wait twice as long.

    Args:
        metadata: What the caller sent with the call.
    """
    before = next((value for key, value in metadata if key == _ATTEMPTS_KEY), "0")
    doublings = min(int(before), _MOST_DOUBLINGS) if before in ("1", "2", "3", "4") else 0
    return Status(
        code=grpc.StatusCode.UNAVAILABLE.name,
        details="the replica that had the request has ended, or cannot be reached; try again, another one takes it",
        trailing=[(PUSHBACK_KEY, str(_PUSHBACK_MS << doublings))],
    )


def add_to_server(_servicer: object, server: Any) -> None:
    """Adds the calls of the protocol to a proxy.

    Args:
        _servicer: Not used: replicas answer.
        server: The gRPC server of the proxy, which puts its own functions into the handlers.
    """
    server.add_generic_rpc_handlers((ProxiedService(),))


class ProxiedService(grpc.GenericRpcHandler):
    """Methods whose messages go through as bytes, with failures of Ray Serve as statuses that clients know.

    Ray Serve replaces the functions of ``_method_handlers``, the attribute of gRPC's own generic handlers.
    """

    def __init__(self) -> None:
        stream: Handler = grpc.stream_stream_rpc_method_handler(_replaced)
        self._method_handlers: dict[str, Handler] = {
            f"/{PROTOCOL}/{STREAM}": stream,
            f"/{HEALTH}/{HEALTH_CHECK}": grpc.unary_unary_rpc_method_handler(_replaced),
            f"/{REPLICAS}/{LIST}": grpc.unary_unary_rpc_method_handler(_replaced),
        } | {f"/{PROTOCOL}/{name}": grpc.unary_unary_rpc_method_handler(_replaced) for name in UNARY}
        self._translated: dict[str, Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """See :meth:`grpc.GenericRpcHandler.service`."""
        method = handler_call_details.method
        handler = self._translated.get(method)
        if handler is None and (proxied := self._method_handlers.get(method)) is not None:
            handler = self._translated[method] = _translated(proxied)
        return handler


def _replaced(request: Any, context: Any) -> Any:
    """Stands where Ray Serve puts the function of the proxy."""
    raise NotImplementedError


def _translated(handler: Any) -> Handler:
    """Wraps a method of the proxy so that its caller gets a status that a client of the protocol knows."""

    async def answer(request: bytes, context: Any) -> bytes:
        response: bytes = await handler.unary_unary(request, context)
        _translate(context)
        if code := _status_code(context):
            # What is returned would leave as a message before the status, and a client that has begun to receive one
            # tries a call no more.
            await context.abort(code, context.details(), tuple(context.trailing_metadata() or ()))
        return response

    async def answer_stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for response in handler.stream_stream(requests, context):
            yield response
        _translate(context)

    result: Handler = (
        grpc.stream_stream_rpc_method_handler(answer_stream)
        if handler.request_streaming
        else grpc.unary_unary_rpc_method_handler(answer)
    )
    return result


def _status_code(context: Any) -> grpc.StatusCode | None:
    """Returns the status of a call that failed; Ray Serve sets some of them as numbers."""
    code = context.code()
    found = code if isinstance(code, grpc.StatusCode) else _BY_NUMBER.get(code or 0, grpc.StatusCode.UNKNOWN)
    return None if found is grpc.StatusCode.OK else found


def _translate(context: Any) -> None:
    trailing = tuple(context.trailing_metadata() or ())
    if any(key == OWN_STATUS for key, _ in trailing):
        context.set_trailing_metadata(tuple(item for item in trailing if item[0] != OWN_STATUS))
    elif _status_code(context) is grpc.StatusCode.INTERNAL:
        lost = lost_status(context.invocation_metadata() or ())
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        context.set_details(lost.details)
        context.set_trailing_metadata((*trailing, *lost.trailing))
