"""Authorization of calls by bearer tokens, before the message of a call is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from mnserve.access.caller_identity import address_of, bearer_token
from mnserve.access.rate_limits import RateLimits
from mnserve.access.refused_calls import RefusedCalls
from mnserve.access.refusing import refusing
from mnserve.access.tokens import Right, Tokens, read_tokens
from mnserve.access.watched_file import WatchedFiles
from mnserve.errors import PermissionDeniedError, RateLimitedError, RequestError, UnauthenticatedError
from mnserve.protocol import service_pb2

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

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


class Authorization:
    """Checks the tokens of calls, however they came.

    Args:
        file: File of the tokens; checked for changes before every call.
        failures: Limits of the calls of an address that fail here; None for no limit.
        refused: Counts the calls that fail here; None counts nothing.

    Raises:
        CredentialsError: The file cannot be used.
    """

    def __init__(self, file: Path, failures: RateLimits | None = None, refused: RefusedCalls | None = None) -> None:
        self._failures = failures
        self._refused = RefusedCalls() if refused is None else refused
        self._tokens = WatchedFiles([file], lambda: Tokens(read_tokens(file)))

    def check(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Checks that a call has a token with the right that it needs.

        Args:
            method: Full name of the call, such as ``/inference.GRPCInferenceService/ModelInfer``.
            metadata: Metadata or headers of the call, keys in lower case.

        Raises:
            UnauthenticatedError: It has no token, or an unknown one.
            PermissionDeniedError: The right of its token does not suffice.
        """
        needed = right_for(method)
        if needed is None:
            return
        self._tokens.refresh()
        right = self._tokens.content.right(bearer_token(metadata))
        if right is None:
            raise UnauthenticatedError("the token is not one of this server's; ask its operator for one")
        if needed == "control" and right != "control":
            raise PermissionDeniedError(
                f"the token is good for inference, and {method.rpartition('/')[2][:64]} needs one that is good for "
                "control; ask the server's operator for one"
            )

    def refusal(self, error: RequestError, peer: str) -> RequestError:
        """Counts a call that failed here; returns its error, or that of an address of which too many calls did.

        Args:
            error: What :meth:`check` has raised.
            peer: Peer of the call, as gRPC writes it.
        """
        try:
            if self._failures is not None:
                self._failures.take(address_of(peer))
        except RateLimitedError as limited:
            self._refused.count("RATE")
            return limited.with_traceback(None)
        self._refused.count("TOKEN")
        return error.with_traceback(None)


class AuthorizationInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls of gRPC pass whose token has the right that they need. Has to be the first interceptor.

    Args:
        authorization: Checks the tokens.
    """

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See :meth:`grpc.aio.ServerInterceptor.intercept_service`."""
        try:
            self._authorization.check(handler_call_details.method, handler_call_details.invocation_metadata or ())
        except RequestError as error:
            failed = error.with_traceback(None)
            return refusing(lambda context: self._authorization.refusal(failed, context.peer()))
        return await continuation(handler_call_details)
