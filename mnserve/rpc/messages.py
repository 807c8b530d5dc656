"""Parsing of messages before a call: INVALID_ARGUMENT for the caller instead of a traceback in the log.

Refused are messages that do not parse, and those that would take far more time and memory than they have bytes. What a
message holds is free again once its call has ended, however it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from mnserve.access.call_limits import LargeCalls
from mnserve.errors import InvalidRequestError
from mnserve.failing import ended, errors_to_status
from mnserve.rpc.heap_trimming import HeapTrimming
from mnserve.rpc.wire import ElementLimits, NotAMessageError, WireShape, first_excess

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

LIMITS: Final = ElementLimits(fields=65_536, values=2**21, numbers=2**22, texts=300_000)
"""Most elements of a message: those that protobuf parses within about a tenth of a second. The longest text is the
configuration of a load."""
_REMEDIES: Final = {
    "fields": "fields, such as inputs, outputs and parameters; send each of them once",
    "values": "strings, or numbers that are not packed; send tensors as raw_input_contents",
    "numbers": "integers or booleans in typed contents; send tensors as raw_input_contents",
    "texts": "bytes of names, ids and parameters; send shorter ones",
}
_UNCOUNTED_BYTES: Final = 2**16
"""Messages up to this size are parsed within a millisecond, whatever they have."""
_INLINE_BYTES: Final = 2**20
"""Messages up to this size are parsed on the event loop, unless they have more elements than ``_INLINE``."""
_INLINE: Final = ElementLimits(fields=1024, values=2048, numbers=2**18, texts=LIMITS.texts)


@dataclass(frozen=True)
class LargeMessages:
    """What the large messages of all methods share.

    Attributes:
        heap: Gives their memory back.
        turn: Held while the many elements of a message are counted. Several threads at that would keep the event loop
            waiting for the interpreter, and be no faster.
    """

    heap: HeapTrimming = field(default_factory=HeapTrimming)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Parser:
    """Parses the messages of one method.

    Args:
        parse: Makes a message of bytes; the bound ``FromString`` of its class.
        shared: What it shares with other methods.
    """

    def __init__(self, parse: Callable[[bytes], Any], shared: LargeMessages) -> None:
        self._parse = parse
        self._turn = shared.turn
        # Messages of our services and of others (health) alike; a bound FromString has its class as __self__.
        descriptor = parse.__self__.DESCRIPTOR  # type: ignore[attr-defined]
        self._kind: str = descriptor.name
        self._shape = WireShape.of(descriptor)

    async def parse(self, data: bytes) -> Any:
        """Parses a message, in a worker thread where that takes long.

        Raises:
            InvalidRequestError: The bytes are no message, or one with too many elements.
        """
        if len(data) <= _UNCOUNTED_BYTES:
            return self.parse_small(data)
        if not self._excess(data, _INLINE):
            return (
                self.parse_small(data)
                if len(data) <= _INLINE_BYTES
                else await asyncio.to_thread(self.parse_small, data)
            )
        async with self._turn:
            return await asyncio.to_thread(self._parse_counted, data)

    def parse_small(self, data: bytes) -> Any:
        """Parses a message without a look at its elements."""
        try:
            return self._parse(data)
        except DecodeError:
            raise self._invalid() from None

    def _parse_counted(self, data: bytes) -> Any:
        excess = self._excess(data, LIMITS)
        if excess is not None:
            most = getattr(LIMITS, excess)
            raise InvalidRequestError(f"the {self._kind} has more than {most} {_REMEDIES[excess]}")
        return self.parse_small(data)

    def _excess(self, data: bytes, limits: ElementLimits) -> str | None:
        try:
            return first_excess(data, self._shape, limits)
        except NotAMessageError:
            raise self._invalid() from None

    def _invalid(self) -> InvalidRequestError:
        return InvalidRequestError(f"the message is not a valid {self._kind}")


class KnownForms(Protocol):
    """Answers to messages of forms that came before, which need no parsing."""

    def answer_known(self, data: bytes, context: Context) -> Awaitable[Any] | None:
        """Answers a message; None, at once or in the end, for one that has to be parsed."""

    def learn(self, data: bytes, message: Any) -> None:
        """Remembers the form of a message that was answered."""


class CheckedService(grpc.GenericRpcHandler):
    """Methods of a service behind the parsing of their messages.

    Args:
        inner: The service.
        small: Makes the handler of a method that is not one of ``large``.
        large: Methods whose messages may be large, and their calls in progress.
        shared: What the large messages of all methods share.
        known: Methods that answer messages of known forms without parsing them.
    """

    def __init__(
        self,
        inner: grpc.GenericRpcHandler,
        small: Callable[[Any], Handler],
        large: Mapping[str, LargeCalls],
        shared: LargeMessages,
        known: Mapping[str, KnownForms],
    ) -> None:
        self._inner = inner
        self._known = known
        self._shared = shared
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
            is_large = method in self._large
            handler = checked(unchecked, self._shared, self._known.get(method)) if is_large else self._small(unchecked)
            self._handlers[method] = handler
        large = self._large.get(method)
        if large is not None:
            if not large.has_room():
                return large.refusing
            task = asyncio.current_task()  # the whole call, from here to its end
            if task is not None:
                large.begin(task)
        return handler


def checked(handler: Any, shared: LargeMessages, known: KnownForms | None = None) -> Handler:
    """Takes the parsing of messages over from gRPC, and has every error become a status.

    A stream ends at the first message that is refused; those before it have their answers by then.

    Args:
        handler: Handler of a method, whose function is a coroutine; any other stays as it is.
        shared: What the large messages of all methods share.
        known: Answers messages of known forms; None parses every message.
    """
    call = handler.unary_stream or handler.unary_unary or handler.stream_stream
    if handler.request_deserializer is None or not iscoroutinefunction(call):
        unchanged: Handler = handler
        return unchanged
    parser, heap = Parser(handler.request_deserializer, shared), shared.heap

    async def answer(data: Any, context: Any) -> Any:
        size, message = len(data), None
        try:
            if known is not None and (answering := known.answer_known(data, context)) is not None:
                answered = await answering
                if answered is not None:
                    return answered
            message = parser.parse_small(data) if size <= _UNCOUNTED_BYTES else await parser.parse(data)
            response = await call(message, context)
            if known is not None:
                known.learn(data, message)
            return response
        except BaseException as error:  # noqa: BLE001 (is raised again, or becomes a status)
            last = await ended(context, error)
        finally:
            if size > _UNCOUNTED_BYTES:
                heap.ended(size)
        try:
            raise last
        finally:
            del data, context, last, message

    @errors_to_status
    async def answer_stream(_requests: Any, context: Context) -> Any:
        largest = 0

        def ended(nbytes: int) -> None:
            nonlocal largest
            largest = max(largest, nbytes)
            heap.ended(nbytes)

        try:
            return await call(_messages(parser, context, ended), context)
        finally:
            heap.ended(largest)  # the last requests were in work until now

    write = handler.response_serializer

    def serialize(response: Any) -> Any:
        data = response if write is None or isinstance(response, bytes) else write(response)
        if len(data) > _UNCOUNTED_BYTES:
            heap.ended(len(data))  # a small request may have a large answer
        return data

    if handler.request_streaming:
        streaming: Handler = grpc.stream_stream_rpc_method_handler(answer_stream, None, serialize)
        return streaming
    make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
    result: Handler = make(answer, None, serialize)
    return result


async def _messages(parser: Parser, context: Context, ended: Callable[[int], None]) -> AsyncIterator[Any]:
    """Reads the messages of a stream, and holds none while it waits for the next.

    The iterator of gRPC would hold the last one.

    Args:
        parser: Parses them.
        context: Context of the call.
        ended: Hears the bytes of each message once it was refused, or the next one is asked for.
    """
    while (data := await context.read()) is not grpc.aio.EOF:
        nbytes = len(data)
        try:
            parsed = [await parser.parse(data)]
            del data
            yield parsed.pop()
        finally:
            ended(nbytes)
