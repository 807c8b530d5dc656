"""Messages that do not parse, or would take far more memory than they have bytes: INVALID_ARGUMENT for the caller
instead of a traceback in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from mnserve.wire import has_more_fields

__all__ = ["MAX_FIELDS", "MessageInterceptor"]

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

MAX_FIELDS: Final = 65_536
"""Most fields of a message, such as inputs and their raw contents. protobuf makes an object of some 90 bytes of each,
which may have come in two."""
_SMALL_BYTES: Final = 2**20
"""Messages up to this size may have as many fields as they like."""


class _Refused:
    """Stands where the message would be."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class MessageInterceptor(grpc.aio.ServerInterceptor):
    """Answers calls whose one request cannot be taken apart. Calls that stream requests are left as they are."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See :meth:`grpc.aio.ServerInterceptor.intercept_service`."""
        method = handler_call_details.method
        if method not in self._handlers:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None  # not kept: clients may make up as many methods as they like
            self._handlers[method] = _checked(handler)
        return self._handlers[method]


def _checked(handler: Any) -> Handler:
    """The handler behind a check of its request."""
    if handler.request_streaming or handler.request_deserializer is None:
        unchanged: Handler = handler
        return unchanged
    call, parse = handler.unary_stream or handler.unary_unary, handler.request_deserializer
    # Messages of our services and of others (health) alike; a bound FromString has its class as __self__.
    kind = getattr(getattr(parse, "__self__", None), "__name__", "message")

    def try_parse(data: bytes) -> Any:
        if len(data) > _SMALL_BYTES and has_more_fields(data, MAX_FIELDS):
            return _Refused(f"the {kind} has more than {MAX_FIELDS} fields; send each input once")
        try:
            return parse(data)
        except DecodeError:
            return _Refused(f"the message is not a valid {kind}")

    async def checked(request: Any, context: Context) -> Any:
        if isinstance(request, _Refused):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, request.reason)
        return await call(request, context)

    make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
    result: Handler = make(checked, try_parse, handler.response_serializer)
    return result
