"""Calls that bring no tensors: probes, health watches, metadata, settings, reflection.

Each is taken as a stream, since gRPC receives the message of other calls before it asks anyone. So a call without a
place is refused with its message unread, and the messages of the others come in turns and are small.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isasyncgenfunction
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from mnserve.access.call_limits import CallLimits, Places
from mnserve.errors import InvalidRequestError, MessageTooLargeError, RequestError, TooManyCallsError
from mnserve.failing import drop_frames, errors_to_status, fail
from mnserve.rpc.heap_trimming import HeapTrimming
from mnserve.rpc.message_turns import MessageTurns, received

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

MAX_BYTES: Final = 65_536
"""Largest message. The longest name of a model has 255 bytes."""
_IDLE_SECONDS: Final = 60.0
"""Time in which a stream of reflection has to bring its next question."""
_GRPC_SECONDS: Final = 1.0
"""Time for gRPC to cancel a call whose caller has left."""


class SmallCalls:
    """Makes handlers of small calls.

    Args:
        limits: Places of the calls, and the counter of refusals.
        heap: Gives the memory of large messages back.
    """

    def __init__(self, limits: CallLimits, heap: HeapTrimming) -> None:
        self._limits = limits
        self._heap = heap
        self._turns = MessageTurns()

    def handler(self, inner: Any) -> Handler:
        """Puts a handler of generated code behind the limits.

        Args:
            inner: Handler whose function is a coroutine, or an asynchronous generator.
        """
        if inner.request_streaming:
            return self._stream(inner)
        places = self._limits.watches if inner.response_streaming else self._limits.calls
        call = inner.unary_stream or inner.unary_unary

        async def answer_one(context: Context, peer: str) -> None:
            request = await self._receive(inner, context, peer)
            response = await call(request, context)
            if not inner.response_streaming:
                await context.write(response)

        @errors_to_status
        async def answer(_requests: Any, context: Context) -> None:
            await self._in_place(places, context, answer_one)

        handler: Handler = grpc.stream_stream_rpc_method_handler(answer, response_serializer=inner.response_serializer)
        return handler

    def _stream(self, inner: Any) -> Handler:
        call: Callable[..., Any] = inner.stream_stream
        assert isasyncgenfunction(call)

        async def requests(context: Context) -> AsyncIterator[Any]:
            while (data := await received(context.read, _IDLE_SECONDS)) is not grpc.aio.EOF:
                self._heap.ended(len(data))
                yield _parsed(inner, data)

        async def answer_all(context: Context, _peer: str) -> None:
            async for response in call(requests(context), context):
                await context.write(response)

        @errors_to_status
        async def answer(_requests: Any, context: Context) -> None:
            await self._in_place(self._limits.reflections, context, answer_all)

        handler: Handler = grpc.stream_stream_rpc_method_handler(answer, response_serializer=inner.response_serializer)
        return handler

    async def _in_place(
        self, places: Places, context: Context, answer: Callable[[Context, str], Awaitable[None]]
    ) -> None:
        """Answers a call from its own place, and refuses it where there is none."""
        try:
            with places.place(peer := context.peer()):
                await answer(context, peer)
                return
        except RequestError as error:
            refused = self._counted(error)
        await fail(context, refused)

    async def _receive(self, inner: Any, context: Context, peer: str) -> Any:
        data = await self._turns.receive(context.read, peer)
        if data is grpc.aio.EOF:
            await asyncio.sleep(_GRPC_SECONDS)  # the caller has left, most likely
            raise InvalidRequestError("the call has no message")
        self._heap.ended(len(data))
        return _parsed(inner, data)

    def _counted(self, error: RequestError) -> RequestError:
        """Counts a refusal, and lets go of the frames that hold the message."""
        drop_frames(error)
        if isinstance(error, TooManyCallsError):
            self._limits.refused.count("PLACES")
        elif isinstance(error, MessageTooLargeError):
            self._limits.refused.count("MESSAGE")
        return error


def _parsed(inner: Any, data: bytes) -> Any:
    parse = inner.request_deserializer
    # Messages of our services and of others (health) alike; a bound FromString has its class as __self__.
    kind = getattr(getattr(parse, "__self__", None), "__name__", "message")
    if len(data) > MAX_BYTES:
        raise MessageTooLargeError(f"the {kind} has {len(data)} bytes, and this call takes at most {MAX_BYTES}")
    try:
        return parse(data)
    except DecodeError:
        raise InvalidRequestError(f"the message is not a valid {kind}") from None
