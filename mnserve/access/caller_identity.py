"""Identity of a caller, as far as rate limits tell callers apart."""

from __future__ import annotations

from typing import Any

import grpc


def caller_of(context: grpc.aio.ServicerContext[Any, Any], *, by_token: bool) -> str:
    """Returns the token of a caller, which was checked before, or its address without the port.

    Args:
        context: Context of the call.
        by_token: Calls need tokens. Otherwise a caller could write any token, so its address counts.
    """
    if by_token:
        return next((str(value) for key, value in context.invocation_metadata() or () if key == "authorization"), "")
    return context.peer().rpartition(":")[0]
