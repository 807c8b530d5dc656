"""The list of the replicas, over gRPC and HTTP, for callers who may use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import Response

from mnserve.distributed.calls import LIST
from mnserve.distributed.guard import Guard
from mnserve.distributed.proxied_context import ProxiedContext, ServeContext
from mnserve.failing import ended
from mnserve.http.answers import json_answer
from mnserve.http.context import HttpContext
from mnserve.http.failures import failure

Replicas: TypeAlias = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Asks for the descriptions of the replicas."""


async def list_over_grpc(guard: Guard, replicas: Replicas, context: ServeContext) -> bytes:
    """Answers the call for the list; the status of one that fails is in its context.

    Args:
        guard: Checks the token of the caller.
        replicas: Asks for the replicas.
        context: Context of Ray Serve.
    """
    proxied = ProxiedContext(context)
    try:
        guard.check(LIST, proxied)
        return orjson.dumps({"replicas": await replicas()})
    except Exception as error:  # noqa: BLE001 (every error becomes a status)
        await ended(proxied, error)
    return b""


async def list_over_http(guard: Guard, replicas: Replicas, request: Request) -> Response:
    """Answers a request of HTTP for the list, with the statuses and words of ``mnserve serve``.

    Args:
        guard: Checks the token of the caller.
        replicas: Asks for the replicas.
        request: The request, as a proxy hands it over.
    """
    try:
        guard.check(LIST, HttpContext(request.scope))
        answer = json_answer({"replicas": await replicas()})
    except Exception as error:  # noqa: BLE001 (every error becomes an answer)
        answer = failure(error)
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, answer.status, headers, media_type=answer.media_type.decode())
