"""What a call that fails is told: a status, a sentence, and when to come back."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NoReturn

import grpc

from mnserve.errors import DeadlineExceededError, MnServeError
from mnserve.status import PUSHBACK_KEY, pushback_ms, status_code

_log = logging.getLogger(__name__)

_MAX_DETAILS: Final = 2000
_MAX_SENT_BYTES: Final = 4096
"""Of the details as they are sent, where each byte that is no printable ASCII becomes three. Clients refuse metadata of
8 KiB and more, and would read of that instead."""
_OVER_SECONDS: Final = 0.05
"""Time left to a deadline that has passed by another clock."""
_GRPC_SECONDS: Final = 1.0
"""How long gRPC may take to end a call whose deadline has passed."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """How a call ends.

    Attributes:
        code: Status.
        details: What the caller reads.
        pushback_ms: Milliseconds until trying again makes sense; None where it never does.
    """

    code: grpc.StatusCode
    details: str
    pushback_ms: int | None


def refusal(error: Exception) -> Refusal:
    """The status that belongs to an error. INTERNAL gets an id that the log has too."""
    code = status_code(error)
    details = str(error)
    if code is grpc.StatusCode.INTERNAL:
        error_id = uuid.uuid4().hex[:12]
        _log.error("internal error %s", error_id, exc_info=error)
        known = f"{details}; " if isinstance(error, MnServeError) else ""
        details = f"{known}internal error {error_id}, the server's log has the details under this id"
    return Refusal(code=code, details=_fitting(details), pushback_ms=pushback_ms(error))


def _fitting(details: str) -> str:
    """As much as can be sent."""
    encoded = details[:_MAX_DETAILS].encode("utf-8", "backslashreplace")  # gRPC hangs on what is no text
    sizes = accumulate(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in encoded)  # percent-encoding
    return encoded[: sum(size <= _MAX_SENT_BYTES for size in sizes)].decode("utf-8", "ignore")


async def fail(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """Ends a call with the status that belongs to the error.

    A call whose deadline has passed ends by itself, at the caller and here: gRPC cancels what still waits. A status
    that is sent all the same reaches nobody, and gRPC for Python never gives back what it took for it
    (https://github.com/grpc/grpc/issues/43360).
    """
    if isinstance(error, DeadlineExceededError):
        left = context.time_remaining()
        if left is not None and left < _OVER_SECONDS:
            await asyncio.sleep(_GRPC_SECONDS)
    end = refusal(error)
    trailing = () if end.pushback_ms is None else ((PUSHBACK_KEY, str(end.pushback_ms)),)
    await context.abort(end.code, end.details, trailing)
