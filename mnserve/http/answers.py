"""Answers of HTTP, as the application makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

Headers: TypeAlias = "tuple[tuple[bytes, bytes], ...]"

JSON: Final = b"application/json"
BINARY: Final = b"application/octet-stream"
"""Type of answers with binary tensors."""


@dataclass(frozen=True)
class HttpAnswer:
    """One answer.

    Attributes:
        body: Its body.
        media_type: Type of the body.
        status: Status code.
        headers: Further headers, names in lower case.
    """

    body: bytes = b""
    media_type: bytes = JSON
    status: int = 200
    headers: Headers = ()

    async def send(self, send: Any) -> None:
        """Sends the answer.

        Args:
            send: Takes messages of ASGI.
        """
        headers = [(b"content-length", b"%d" % len(self.body)), *self.headers]
        if self.body or self.status == 200:
            headers.insert(0, (b"content-type", self.media_type))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(content: Any, status: int = 200, headers: Headers = ()) -> HttpAnswer:
    """Makes an answer of a value of JSON."""
    return HttpAnswer(orjson.dumps(content), status=status, headers=headers)
