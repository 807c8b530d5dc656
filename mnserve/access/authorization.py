"""Authorization of calls by bearer tokens, before the message of a call is read."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from mnserve.access.tokens import Right, Tokens, read_tokens
from mnserve.access.watched_file import WatchedFiles
from mnserve.errors import PermissionDeniedError, RequestError, UnauthenticatedError
from mnserve.failing import fail, without_frames
from mnserve.protocol import service_pb2

_log = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = grpc.aio.ServicerContext[Any, Any]

_SERVICE: Final = f"/{service_pb2.DESCRIPTOR.services_by_name['GRPCInferenceService'].full_name}/"
PUBLIC: Final = frozenset(
    {
        f"{_SERVICE}ServerLive",
        f"{_SERVICE}ServerReady",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
    }
)
"""Calls of load balancers and probes, which need no token."""
INFERENCE: Final = frozenset(
    _SERVICE + name
    for name in (
        "ModelReady",
        "ServerMetadata",
        "ModelMetadata",
        "ModelConfig",
        "ModelStatistics",
        "ModelInfer",
        "ModelStreamInfer",
        "RepositoryIndex",
    )
)
"""Calls of our service that change no state. Calls in neither set need the right ``control``."""


def right_for(method: str) -> Right | None:
    """Returns the right that a call needs; None where it needs no token."""
    if method in PUBLIC:
        return None
    return "control" if method.startswith(_SERVICE) and method not in INFERENCE else "infer"


class AuthorizationInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls pass whose token has the right that they need. Has to be the first interceptor.

    Args:
        file: File of the tokens; checked for changes before every call.

    Raises:
        CredentialsError: The file cannot be used.
    """

    def __init__(self, file: Path) -> None:
        self._tokens = WatchedFiles([file], lambda: Tokens(read_tokens(file)))

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See :meth:`grpc.aio.ServerInterceptor.intercept_service`."""
        try:
            self._check(handler_call_details.method, handler_call_details.invocation_metadata or ())
        except RequestError as error:
            return _refusing(error)
        return await continuation(handler_call_details)

    def _check(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        needed = right_for(method)
        if needed is None:
            return
        self._tokens.refresh()
        right = self._tokens.content.right(_bearer_token(metadata))
        if right is None:
            raise UnauthenticatedError("the token is not one of this server's; ask its operator for one")
        if needed == "control" and right != "control":
            raise PermissionDeniedError(
                f"the token is good for inference, and {method.rpartition('/')[2][:64]} needs one that is good for "
                "control; ask the server's operator for one"
            )


def _bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    values = [value for key, value in metadata if key == "authorization"]
    if len(values) != 1:
        count = "no" if not values else "more than one"
        raise UnauthenticatedError(f"the call has {count} token; send the metadata `authorization: Bearer TOKEN` once")
    text = values[0] if isinstance(values[0], str) else ""
    scheme, _, token = text.partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthenticatedError("the call's authorization is no bearer token; send `authorization: Bearer TOKEN`")
    return token.strip()


def _refusing(error: RequestError) -> Handler:
    """Ends any call. The handler is a stream, since gRPC reads the message of other calls before it runs a handler."""

    @without_frames
    async def refuse(_requests: Any, context: Context) -> None:
        _log.debug("a call from %s was refused: %s", context.peer(), error)
        await fail(context, error)

    handler: Handler = grpc.stream_stream_rpc_method_handler(refuse)
    return handler
