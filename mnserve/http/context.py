"""Context of a call: what the services of gRPC ask of theirs, answered from a request of HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import grpc

from mnserve.failing import Refusal
from mnserve.http.errors import CallFailedError
from mnserve.http.headers import Scope, header_of
from mnserve.status import PUSHBACK_KEY


class HttpContext:
    """Stands for the context of gRPC.

    Args:
        scope: Scope of the request.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the headers, names in lower case."""
        return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._scope["headers"])

    def header(self, name: bytes) -> str | None:
        """Returns the value of a header; None where there is none."""
        return header_of(self._scope, name)

    def peer(self) -> str:
        """Returns the address of the client, as gRPC writes it."""
        client = self._scope.get("client")
        if not client:
            return "unknown"
        host, port = client
        return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def time_remaining(self) -> None:
        """Tells that there is no deadline: a request of HTTP has the parameter ``timeout`` alone."""

    async def abort(
        self, code: grpc.StatusCode, details: str, trailing_metadata: Iterable[tuple[str, str]] = ()
    ) -> NoReturn:
        """Ends the call with a status.

        Raises:
            CallFailedError: In any case.
        """
        pushback = next((int(value) for key, value in trailing_metadata if key == PUSHBACK_KEY), None)
        raise CallFailedError(Refusal(code=code, details=details, pushback_ms=pushback))
