"""Handlers that refuse a call with its message unread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from mnserve.errors import RequestError
from mnserve.failing import errors_to_status, fail

_log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def refusing(reason: Callable[[Context], RequestError]) -> Handler:
    """Makes a handler that ends any call.

    It is one of a stream, since gRPC reads the message of other calls before it runs a handler.

    Args:
        reason: Makes the error of a call.
    """

    @errors_to_status
    async def refuse(_requests: Any, context: Context) -> None:
        error = reason(context)
        _log.debug("a call from %s was refused: %s", context.peer(), error)
        await fail(context, error)

    handler: Handler = grpc.stream_stream_rpc_method_handler(refuse)
    return handler
