"""Compression of bodies, with gzip or deflate: of requests within a limit, and of answers where a client asks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from mnserve.errors import InvalidRequestError, MessageTooLargeError, UnsupportedError
from mnserve.http.answers import BINARY, HttpAnswer
from mnserve.http.errors import NoRoomError
from mnserve.http.headers import Scope, header_of

_LEAST: Final = 1024
"""Smaller answers stay as they are: a packet carries them."""
_LEVEL: Final = 1
_PIECE: Final = 2**14
"""Bytes of a body that are decompressed at a time."""
_STEP: Final = 2**20
"""Most bytes that come of them at a time: deflate makes up to a thousand of one."""
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def decompressed(body: bytes, encoding: str, most: int, grow: Callable[[int], bool]) -> bytes:
    """Decompresses the body of a request.

    Args:
        body: The body.
        encoding: Header ``Content-Encoding``.
        most: Largest body, decompressed.
        grow: Takes memory for so many bytes more; False where there is none.

    Raises:
        NoRoomError: There is no memory for it.
        UnsupportedError: The encoding is another one.
        InvalidRequestError: The body is damaged.
        MessageTooLargeError: The body is larger than ``most``.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in _WINDOWS:
        raise UnsupportedError(f"the Content-Encoding is '{encoding[:40]}'; send gzip, deflate or none")
    unpacking = zlib.decompressobj(_WINDOWS[name])
    parts, size = [], 0
    try:
        for part in _parts(body, unpacking):
            size += len(part)
            if size > most:
                raise MessageTooLargeError(
                    f"the decompressed body has more than {most} bytes, the most that this call takes; send less, or "
                    "start the server with a larger --max-message-bytes"
                )
            if not grow(len(part)):
                raise NoRoomError
            parts.append(part)
    except zlib.error as error:
        raise InvalidRequestError(f"the body is no {name}: {error}; compress it again, or send it as it is") from None
    if not unpacking.eof or unpacking.unused_data:
        fault = "bytes behind its end" if unpacking.eof else "no end"
        raise InvalidRequestError(f"the body is {name} with {fault}; compress it again, or send it as it is")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _parts(body: bytes, unpacking: zlib._Decompress) -> Iterator[bytes]:
    """Decompresses a body step by step; what stands behind its end becomes ``unused_data``."""
    view = memoryview(body)
    for begin in range(0, len(view), _PIECE):
        piece: bytes | memoryview = view[begin : begin + _PIECE]
        while True:
            part = unpacking.decompress(piece, _STEP)
            yield part
            piece = unpacking.unconsumed_tail
            if not piece and len(part) < _STEP:
                break
        if unpacking.unused_data:
            return


def compressed(answer: HttpAnswer, scope: Scope) -> HttpAnswer:
    """Compresses an answer where its client takes that, and it is worth it.

    Libraries accept every encoding they know. Binary tensors hardly become smaller, so they are compressed for clients
    alone that name one encoding, as those of Triton do where they are told to.

    Args:
        answer: The answer.
        scope: Scope of the request.
    """
    if len(answer.body) < _LEAST or (accepted := header_of(scope, b"accept-encoding")) is None:
        return answer
    names = _accepted(accepted)
    name = next((name for name in ("gzip", "deflate") if name in names), None)
    if name is None or (answer.media_type == BINARY and len(names) > 1):
        return answer
    pack = gzip.compress if name == "gzip" else zlib.compress
    body = pack(answer.body, _LEVEL)
    if len(body) >= len(answer.body):
        return answer
    headers = (*answer.headers, (b"content-encoding", name.encode()), (b"vary", b"accept-encoding"))
    return HttpAnswer(body, answer.media_type, answer.status, headers)


def _accepted(header: str) -> set[str]:
    """Returns the encodings that a client takes; those with the weight 0 are none."""
    names = set()
    for item in header.split(","):
        name, _, weight = item.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            names.add(name.strip().lower())
    return names - {"", "identity"}
