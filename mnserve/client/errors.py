"""Errors of the client, with a remedy, from the gRPC status of a failed call."""

from __future__ import annotations

import os
from collections.abc import Sequence

import grpc

from mnserve.client.channels import parse_address
from mnserve.errors import AnswerTimeoutError, ClientError, RequestRefusedError, ServerUnreachableError
from mnserve.text.names import listed

_CONNECTION_SIGNS = (
    "connect",
    "dns",
    "name resolution",
    "errors resolving",
    "socket closed",
    "connection reset",
    "goaway",
    "handshake",
)
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that gRPC reads, in this order."""
_TLS_SIGNS = ("ssl handshake failed", "tsi_")


def translate(
    error: grpc.Call, *, url: str, timeout: float, model: str | None = None, known: Sequence[str] = ()
) -> ClientError:
    """Translates a failed call into an error of the client.

    Args:
        error: The failed call.
        url: Address of the server.
        timeout: Limit of the wait, in seconds.
        model: Name of the requested model, if any.
        known: Names of the server's models, as far as they are known.
    """
    code, details = error.code(), " ".join((error.details() or "").split()).rstrip(".")
    if code is grpc.StatusCode.UNAVAILABLE and any(sign in details.lower() for sign in _CONNECTION_SIGNS):
        reason = details.rsplit(": ", 1)[-1]  # gRPC puts every layer in front of the system's own words
        if any(sign in details.lower() for sign in _TLS_SIGNS):
            return ServerUnreachableError(
                f"no encrypted connection to {url} came about ({reason}); look at --tls-ca (who vouches for the "
                "server), at --tls-certificate (if it wants one), and at whether it speaks TLS"
            )
        return ServerUnreachableError(
            f"no server answers at {url} ({reason}); start one with `mnserve serve REPOSITORY`, or give its "
            f"address with --url HOST:PORT, or grpcs://HOST:PORT if it wants TLS{_proxy_hint(url)}"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return AnswerTimeoutError(
            f"the server at {url} gave no answer within {timeout:g} s; raise --timeout, or send smaller batches"
        )
    if code is grpc.StatusCode.NOT_FOUND and model is not None:
        names_listed = "; the server has " in details or all(name in details for name in known)
        has = "" if names_listed else f"; it has {listed(known)}"
        return RequestRefusedError(f"the server at {url} does not serve '{model}': {details}{has}")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return RequestRefusedError(
            f"the server at {url} wants another token: {details}; give it with --token-file FILE or in MNSERVE_TOKEN"
        )
    if code is grpc.StatusCode.UNAVAILABLE:
        return RequestRefusedError(f"the server at {url} is not ready for this request: {details}; try again later")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return RequestRefusedError(
            f"the server at {url} does not offer this call: {details or 'no reason given'}; is it a server "
            "of the Open Inference Protocol over gRPC, and is this its gRPC port?"
        )
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return RequestRefusedError(
            f"the server at {url} has no room for this request: {details}; send smaller batches or raise its limit"
        )
    return RequestRefusedError(f"the server at {url} answered {code.name}: {details or 'no reason given'}")


def _proxy_hint(url: str) -> str:
    proxy = next((name for name in _PROXIES if os.environ.get(name)), None)
    if proxy is None or parse_address(url).is_local:
        return ""
    return f"; calls go through the proxy that {proxy} names in the environment, unless no_proxy has the host"
