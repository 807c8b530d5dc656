"""Bodies of requests, within a limit of bytes and of time."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mnserve.errors import InvalidRequestError, MessageTooLargeError
from mnserve.http.body_memory import HeldBody
from mnserve.http.context import HttpContext
from mnserve.http.errors import BodyMemoryError, ClientLeftError, SlowBodyError

SMALL_BYTES: Final = 65_536
"""Largest body of a call that brings no tensors."""
_SECONDS: Final = 300.0
_IDLE_SECONDS: Final = 10.0


async def read_body(receive: Any, context: HttpContext, most: int, held: HeldBody) -> bytes:
    """Reads a body whole.

    Args:
        receive: Gives messages of ASGI.
        context: Context of the call.
        most: Largest body.
        held: Takes the memory for it.

    Raises:
        InvalidRequestError: The length that the client tells is no number.
        MessageTooLargeError: The body is larger than ``most``; the rest of it is not read.
        SlowBodyError: The body does not arrive in time.
        BodyMemoryError: There is no memory for it.
        ClientLeftError: The client is gone.
    """
    told = context.header(b"content-length")
    if told is not None and (size := parsed_length(told, "Content-Length")) > most:
        raise _too_large(size, most)
    parts, size = [], 0
    loop = asyncio.get_running_loop()
    last = loop.time() + _SECONDS
    try:
        async with asyncio.timeout(_IDLE_SECONDS) as limit:
            held.arrives(limit)
            while True:
                message = await receive()
                limit.reschedule(min(last, loop.time() + _IDLE_SECONDS))
                if message["type"] == "http.disconnect":
                    raise ClientLeftError
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(size, most)
                if not held.grow(len(part)):
                    raise BodyMemoryError
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise SlowBodyError(
            f"the body was not there in time, {size} bytes of it were; send it at once, or try again later"
        ) from None
    finally:
        held.arrived()


def _too_large(size: int, most: int) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"the body has at least {size} bytes, and this call takes at most {most}; send less, or start the server with "
        "a larger --max-message-bytes"
    )


def parsed_length(text: str, name: str) -> int:
    """Reads a header that is a number of bytes.

    Raises:
        InvalidRequestError: It is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidRequestError(f"the header {name} is '{text[:40]}'; it must be a number of bytes")
    return int(text)
