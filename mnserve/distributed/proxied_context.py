"""Contexts of calls that come through Ray Serve's proxies, as the handlers of our own server know them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import grpc

from mnserve.distributed.calls import OWN_STATUS


class StreamEndedError(Exception):
    """A stream ends with the status in its context; Ray Serve takes it from there."""


class ServeContext(Protocol):
    """What Ray Serve tells of a call, and takes of its end."""

    def invocation_metadata(self) -> list[tuple[str, str]]: ...

    def peer(self) -> str: ...

    def set_code(self, code: grpc.StatusCode) -> None: ...

    def set_details(self, details: str) -> None: ...

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str]]) -> None: ...


class ProxiedContext:
    """Context of a call with one message each way.

    The deadline of the caller stays at the proxy, which cancels the call here once it has passed.

    Args:
        context: Context of Ray Serve.
    """

    def __init__(self, context: ServeContext) -> None:
        self._context = context

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """See :meth:`grpc.aio.ServicerContext.invocation_metadata`."""
        return tuple(self._context.invocation_metadata())

    def peer(self) -> str:
        """See :meth:`grpc.aio.ServicerContext.peer`: the caller, not the proxy."""
        return self._context.peer()

    def time_remaining(self) -> None:
        """Tells no deadline."""

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Sequence[tuple[str, str]] = ()
    ) -> NoReturn:
        """Ends the call with a status.

        Raises:
            grpc.aio.AbortError: Always, as in a server of gRPC.
        """
        self._context.set_code(code)
        self._context.set_details(details)
        self._context.set_trailing_metadata([*trailing_metadata, (OWN_STATUS, code.name)])
        raise grpc.aio.AbortError


class ProxiedStream(ProxiedContext):
    """Context of a call with a stream of messages each way.

    Args:
        context: Context of Ray Serve.
        requests: Messages of the caller.
        most_unsent: Most answers that wait for the proxy; a stream is not read on beyond them.
    """

    def __init__(self, context: ServeContext, requests: AsyncIterator[bytes], most_unsent: int = 8) -> None:
        super().__init__(context)
        self._requests = requests
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue(most_unsent)
        self._serialize: Any = None

    async def read(self) -> Any:
        """See :meth:`grpc.aio.ServicerContext.read`."""
        return await anext(self._requests, grpc.aio.EOF)

    async def write(self, message: Any) -> None:
        """See :meth:`grpc.aio.ServicerContext.write`."""
        await self._answers.put(self._serialize(message))

    async def answers(self, handler: Any) -> AsyncIterator[bytes]:
        """Has a handler answer the stream.

        Args:
            handler: Handler of gRPC with a stream each way, whose function takes this context.

        Yields:
            The answers, one after the other.
        """
        self._serialize = handler.response_serializer

        async def run() -> None:
            try:
                await handler.stream_stream(None, self)
            finally:
                await self._answers.put(None)

        running = asyncio.ensure_future(run())
        try:
            while (answer := await self._answers.get()) is not None:
                yield answer
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


class Status(NamedTuple):
    """Status of a failed call, on its way between two deployments.

    Attributes:
        code: Name of the status code.
        details: Message for the caller.
        trailing: Metadata that go with it.
    """

    code: str
    details: str
    trailing: list[tuple[str, str]]


class ForwardedContext:
    """Takes the place of Ray Serve's context where another deployment hands a call over.

    Args:
        metadata: What the caller sent with the call.
        peer: Address of the caller.
    """

    def __init__(self, metadata: list[tuple[str, str]], peer: str) -> None:
        self._metadata, self._peer = metadata, peer
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._trailing: list[tuple[str, str]] = []

    @property
    def status(self) -> Status | None:
        """Status of a call that failed; None for another one."""
        return None if self._code is None else Status(self._code.name, self._details, self._trailing)

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """See :class:`ServeContext`."""
        return self._metadata

    def peer(self) -> str:
        """See :class:`ServeContext`."""
        return self._peer

    def set_code(self, code: grpc.StatusCode) -> None:
        """See :class:`ServeContext`."""
        self._code = code

    def set_details(self, details: str) -> None:
        """See :class:`ServeContext`."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str]]) -> None:
        """See :class:`ServeContext`."""
        self._trailing = trailing_metadata
