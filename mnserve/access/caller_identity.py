"""Who sent a call, as far as limits of rates tell callers apart."""

from __future__ import annotations

from typing import Any

import grpc


def caller_of(context: grpc.aio.ServicerContext[Any, Any], *, by_token: bool) -> str:
    """The caller's token, which was checked before, or the address it has without the port.

    Args:
        context: Of the call.
        by_token: Whether calls have tokens. Where they need none, what a caller writes there is its own invention.
    """
    if by_token:
        return next((str(value) for key, value in context.invocation_metadata() or () if key == "authorization"), "")
    return context.peer().rpartition(":")[0]
