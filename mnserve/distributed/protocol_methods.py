"""Methods under the names that Ray Serve's proxies call, for a class that answers all calls in one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mnserve.distributed.calls import HEALTH_CHECK, LIST, STREAM, UNARY
from mnserve.distributed.encoded import Encoded
from mnserve.distributed.proxied_context import ServeContext


class ProtocolMethods(ABC):
    """Base of deployments: a subclass gets one method for each call."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in (*UNARY, HEALTH_CHECK, LIST):
            setattr(cls, name, _unary(name))
        setattr(cls, STREAM, _stream())

    @abstractmethod
    async def answer(self, name: str, data: bytes, context: ServeContext) -> bytes:
        """Answers a call; the status of one that fails is in its context.

        Args:
            name: Name of the call.
            data: Its message.
            context: Context of Ray Serve.
        """

    @abstractmethod
    def answer_stream(self, requests: AsyncIterator[bytes], context: ServeContext) -> AsyncIterator[bytes]:
        """Answers a stream of requests, in their order."""


def _unary(name: str) -> Callable[[Any, bytes, ServeContext], Awaitable[Encoded]]:
    async def call(self: ProtocolMethods, data: bytes, grpc_context: ServeContext) -> Encoded:
        return Encoded(await self.answer(name, data, grpc_context))

    return call


def _stream() -> Callable[[Any, AsyncIterator[bytes], ServeContext], AsyncIterator[Encoded]]:
    async def stream(
        self: ProtocolMethods, requests: AsyncIterator[bytes], grpc_context: ServeContext
    ) -> AsyncIterator[Encoded]:
        async for response in self.answer_stream(requests, grpc_context):
            yield Encoded(response)

    return stream
