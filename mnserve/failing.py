"""End of a failed call: a status code, one sentence, and the time of the next attempt."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NoReturn, TypeAlias

import grpc

from mnserve.errors import DeadlineExceededError, MnServeError
from mnserve.status import PUSHBACK_KEY, pushback_ms, status_code
from mnserve.text.names import printable

Behavior: TypeAlias = Callable[[Any, Any], Awaitable[Any]]

_log = logging.getLogger(__name__)

_MAX_DETAILS: Final = 2000
_MAX_SENT_BYTES: Final = 4096
"""Limit of the percent-encoded details, in which each byte outside printable ASCII takes three. Clients refuse metadata
of 8 KiB and more, and would report that limit in place of the error."""
_CLOCK_TOLERANCE: Final = 0.05
"""Seconds that may be left of a deadline which has passed by another clock."""
_GRPC_SECONDS: Final = 1.0
"""Time for gRPC to end a call whose deadline has passed."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Status of a failed call.

    Attributes:
        code: Status code.
        details: Message for the caller.
        pushback_ms: Milliseconds until another attempt makes sense; None where it never does.
    """

    code: grpc.StatusCode
    details: str
    pushback_ms: int | None


def refusal(error: Exception) -> Refusal:
    """Returns the status of an error. The message of INTERNAL has an id, under which the log has the traceback."""
    code = status_code(error)
    details = str(error)
    if code is grpc.StatusCode.INTERNAL:
        error_id = uuid.uuid4().hex[:12]
        _log.error("internal error %s", error_id, exc_info=error)
        reason = f"{details}; " if isinstance(error, MnServeError) else ""
        details = f"{reason}internal error {error_id}, the server's log has the details under this id"
    return Refusal(code=code, details=_truncated(details), pushback_ms=pushback_ms(error))


def _truncated(details: str) -> str:
    """Cuts the details to the length that clients accept."""
    # Clients print the details as they are; and gRPC hangs on lone surrogates.
    encoded = printable(details[:_MAX_DETAILS]).encode()
    sizes = accumulate(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in encoded)  # percent-encoding
    return encoded[: sum(size <= _MAX_SENT_BYTES for size in sizes)].decode("utf-8", "ignore")


async def fail(
    context: grpc.aio.ServicerContext[Any, Any], error: Exception, *, grpc_seconds: float = _GRPC_SECONDS
) -> NoReturn:
    """Ends a call with the status of an error.

    A call whose deadline has passed is left to gRPC, which cancels it at the caller and here. A status sent then
    reaches no caller, and gRPC for Python never frees the memory of it (https://github.com/grpc/grpc/issues/43360).

    Args:
        context: Context of the call.
        error: Reason of the failure.
        grpc_seconds: Time for gRPC to end a call whose deadline has passed.
    """
    if isinstance(error, DeadlineExceededError):
        remaining = context.time_remaining()
        if remaining is not None and remaining < _CLOCK_TOLERANCE:
            await asyncio.sleep(grpc_seconds)
    status = refusal(error)
    trailing = () if status.pushback_ms is None else ((PUSHBACK_KEY, str(status.pushback_ms)),)
    await context.abort(status.code, status.details, trailing)


def drop_frames(error: BaseException) -> None:
    """Cuts an error off from the frames that it has passed, whose variables it holds, and from those before it.

    A future may keep an error, and a frame the future. Only a collection of cycles would free the message of a request
    then, and a large message is a few objects alone, which are long in calling for one.
    """
    linked: list[BaseException | None] = [error]
    while linked:
        if (one := linked.pop()) is not None:
            linked += (one.__cause__, one.__context__)
            one.__traceback__ = one.__cause__ = one.__context__ = None


def errors_to_status(behavior: Behavior) -> Behavior:
    """Has every error of a handler of gRPC, a coroutine of a request and a context, end its call with a status.

    gRPC keeps the error that ends a call for long, so it leaves without what it holds.
    """

    async def answer(request: Any, context: Any) -> Any:
        try:
            return await behavior(request, context)
        except BaseException as error:  # noqa: BLE001 (is raised again, or becomes a status)
            last = await ended(context, error)
        try:
            raise last
        finally:
            del request, context, last

    return answer


async def ended(context: Any, error: BaseException) -> BaseException:
    """Ends a call with the status of an error, unless it has ended.

    Returns:
        The error that gRPC has to see, without the frames that it has passed. Whoever raises it, outside of the handler
        of ``error``, adds its own frame, which must not hold the request any more.
    """
    try:
        if isinstance(error, grpc.aio.BaseError) or not isinstance(error, Exception):
            raise error  # the status has been sent, or cannot be
        await fail(context, error)
    except BaseException as last:  # noqa: BLE001 (is raised by the caller)
        drop_frames(last)
        return last
