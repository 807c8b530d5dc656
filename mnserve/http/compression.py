"""Compression of bodies, with gzip or deflate: of requests within a limit, and of answers where a client asks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from mnserve.errors import InvalidRequestError, MessageTooLargeError, UnsupportedError
from mnserve.http.answers import BINARY, HttpAnswer
from mnserve.http.errors import BodyMemoryError
from mnserve.http.headers import Scope, header_of

_LEAST: Final = 1024
"""Smaller answers stay as they are: a packet carries them."""
_LEVEL: Final = 1
_PIECE: Final = 2**14
"""Bytes of a body that are decompressed at a time."""
_STEP: Final = 2**20
"""Most bytes that come of them at a time: deflate makes up to a thousand of one."""
_MAX_MEMBERS: Final = 65_536
"""Most members of a body of gzip; each costs time, however little it holds."""
_AGAIN: Final = "compress it again, or send it as it is"
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def decompressed(body: bytes, encoding: str, most: int, grow: Callable[[int], bool]) -> bytes:
    """Decompresses the body of a request.

    Args:
        body: The body.
        encoding: Header ``Content-Encoding``.
        most: Largest body, decompressed.
        grow: Takes memory for so many bytes more; False where there is none.

    Raises:
        BodyMemoryError: There is no memory for it.
        UnsupportedError: The encoding is another one.
        InvalidRequestError: The body is damaged.
        MessageTooLargeError: The body is larger than ``most``.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in _WINDOWS:
        raise UnsupportedError(f"the Content-Encoding is '{encoding[:40]}'; send gzip, deflate or none")
    parts, size = [], 0
    try:
        for part in _parts(body, name):
            size += len(part)
            if size > most:
                raise MessageTooLargeError(
                    f"the decompressed body has more than {most} bytes, the most that this call takes; send less, or "
                    "start the server with a larger --max-message-bytes"
                )
            if not grow(len(part)):
                raise BodyMemoryError
            parts.append(part)
    except zlib.error as error:
        raise InvalidRequestError(f"the body is no {name}: {error}; {_AGAIN}") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _parts(body: bytes, name: str) -> Iterator[bytes]:
    """Decompresses a body step by step. One of gzip may have several members, as files that were joined have."""
    view = memoryview(body)
    unpacking, members = zlib.decompressobj(_WINDOWS[name]), 1
    for begin in range(0, len(view), _PIECE):
        piece: bytes | memoryview = view[begin : begin + _PIECE]
        more = True
        while more:
            if unpacking.eof:
                if name == "deflate":
                    raise InvalidRequestError(f"the body is {name} with bytes behind its end; {_AGAIN}")
                if not bytes(piece).strip(b"\0"):  # padding
                    break
                if members == _MAX_MEMBERS:
                    raise InvalidRequestError(
                        f"the body is {name} with more than {_MAX_MEMBERS} members; compress it as one"
                    )
                unpacking, members = zlib.decompressobj(_WINDOWS[name]), members + 1
            part = unpacking.decompress(piece, _STEP)
            yield part
            piece = unpacking.unused_data if unpacking.eof else unpacking.unconsumed_tail
            more = bool(piece) or (len(part) == _STEP and not unpacking.eof)
    if not unpacking.eof:
        raise InvalidRequestError(f"the body is {name} with no end; {_AGAIN}")


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
    weights = _weights(accepted)
    anything = weights.get("*", 0.0)
    name = max(("gzip", "deflate"), key=lambda known: weights.get(known, anything))  # of equals the first
    others = any(weight for other, weight in weights.items() if other not in (name, "identity"))
    if not weights.get(name, anything) or (answer.media_type == BINARY and others):
        return answer
    pack = gzip.compress if name == "gzip" else zlib.compress
    body = pack(answer.body, _LEVEL)
    if len(body) >= len(answer.body):
        return answer
    headers = (*answer.headers, (b"content-encoding", name.encode()), (b"vary", b"accept-encoding"))
    return HttpAnswer(body, answer.media_type, answer.status, headers)


def _weights(header: str) -> dict[str, float]:
    """Returns the encodings that a client names, and how much it wants each; with 0 it takes none."""
    weights = {}
    for item in header.split(","):
        name, _, parameter = item.partition(";")
        weight = parameter.strip().lower().removeprefix("q=")
        try:
            weights[name.strip().lower()] = float(weight) if weight else 1.0
        except ValueError:
            weights[name.strip().lower()] = 0.0
    weights.pop("", None)
    return weights
