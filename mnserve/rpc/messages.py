"""Check of messages before a call: INVALID_ARGUMENT for the caller instead of a traceback in the log.

Refused are messages that do not parse, and those that would take far more memory than they have bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from mnserve.access.call_limits import LargeCalls
from mnserve.rpc.wire import has_more_fields

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

MAX_FIELDS: Final = 65_536
"""Most fields of a message, such as inputs and their raw contents. Each becomes an object of some 90 bytes, from as few
as two on the wire."""
_SMALL_BYTES: Final = 2**20
"""Messages up to this size may have any number of fields."""


class _Refused:
    """Reason of a refusal, in the place of the message."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class CheckedService(grpc.GenericRpcHandler):
    """Methods of a service behind the check of their messages.

    Args:
        inner: The service.
        small: Makes the handler of a method that is not one of ``large``.
        large: Methods whose messages may be large, and their calls in progress.
    """

    def __init__(
        self, inner: grpc.GenericRpcHandler, small: Callable[[Any], Handler], large: Mapping[str, LargeCalls]
    ) -> None:
        self._inner = inner
        self._small = small
        self._large = large
        self._handlers: dict[str, Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """See :meth:`grpc.GenericRpcHandler.service`."""
        method = handler_call_details.method
        handler = self._handlers.get(method)
        if handler is None:
            unchecked = self._inner.service(handler_call_details)
            if unchecked is None:
                return None  # not kept: clients may make up as many methods as they like
            make = checked if method in self._large else self._small
            handler = self._handlers[method] = make(unchecked)
        large = self._large.get(method)
        if large is not None:
            if len(large.tasks) >= large.most:
                return large.refusing
            task = asyncio.current_task()  # the whole call, from here to its end
            if task is not None:
                large.tasks.add(task)
                task.add_done_callback(large.tasks.discard)
        return handler


class _BrokenStreamError(Exception):
    """A message of a stream does not parse."""


def checked(handler: Any) -> Handler:
    """Puts a handler behind a check of its messages; a stream ends at the first message that is refused.

    Args:
        handler: Handler of a method; one that is no coroutine stays as it is.
    """
    call = handler.unary_stream or handler.unary_unary or handler.stream_stream
    parse = handler.request_deserializer
    if parse is None or call is None or not (iscoroutinefunction(call) or isasyncgenfunction(call)):
        unchanged: Handler = handler
        return unchanged
    # Messages of our services and of others (health) alike; a bound FromString has its class as __self__.
    kind = getattr(getattr(parse, "__self__", None), "__name__", "message")

    def try_parse(data: bytes) -> Any:
        if len(data) > _SMALL_BYTES and has_more_fields(data, MAX_FIELDS):
            return _Refused(f"the {kind} has more than {MAX_FIELDS} fields; send each input once")
        try:
            return parse(data)
        except DecodeError:
            return _Refused(f"the message is not a valid {kind}")

    async def answer(request: Any, context: Context) -> Any:
        if isinstance(request, _Refused):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, request.reason)
        return await call(request, context)

    async def answer_stream(requests: AsyncIterator[Any], context: Context) -> Any:
        try:
            return await call(_until_refused(requests), context)
        except _BrokenStreamError as error:  # earlier requests have their answers by now
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    async def generate_stream(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        try:
            async for response in call(_until_refused(requests), context):
                yield response
        except _BrokenStreamError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    if handler.request_streaming:
        behavior = generate_stream if isasyncgenfunction(call) else answer_stream
        streaming: Handler = grpc.stream_stream_rpc_method_handler(behavior, try_parse, handler.response_serializer)
        return streaming
    make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
    result: Handler = make(answer, try_parse, handler.response_serializer)
    return result


async def _until_refused(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, _Refused):
            raise _BrokenStreamError(request.reason)
        yield request
