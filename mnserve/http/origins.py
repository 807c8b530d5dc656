"""Requests that a web page makes in the browser of somebody who may reach the server, and its maker may not.

A browser tells of the page with the header ``Origin``, which other clients do not send.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from mnserve.access.addresses import is_loopback
from mnserve.errors import PermissionDeniedError
from mnserve.http.headers import Scope, header_of
from mnserve.text.names import printable, shortened

_SAFE: Final = ("GET", "HEAD", "OPTIONS")


def check_origin(scope: Scope, *, local: bool) -> None:
    """Checks that a request comes from no page of another site, where that would do harm.

    Args:
        scope: Scope of the request.
        local: The server is for this machine alone, and asks for no token. Then it has the names of this machine alone:
            a page whose own name leads here (DNS rebinding) could read what it answers.

    Raises:
        PermissionDeniedError: It does.
    """
    if local and not is_loopback(_without_port(host := header_of(scope, b"host") or "localhost")):
        raise PermissionDeniedError(
            f"the server is called as '{printable(shortened(host, 64))}', and it answers as localhost or 127.0.0.1 "
            "alone; use one of them, or start it with --token-file, or with another --host"
        )
    if scope["method"] in _SAFE or (origin := header_of(scope, b"origin")) is None:
        return
    asked = header_of(scope, b"host") or ""
    try:
        parts = urlsplit(origin)
        own = parts.netloc.lower() == asked.lower() and (not local or is_loopback(parts.hostname or ""))
    except ValueError:
        own = False
    if not own:
        raise PermissionDeniedError(
            f"the page '{origin[:80]}' may not call this server; use its own page, or a client that is no browser"
        )


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdigit() and (name.endswith("]") or ":" not in name) else host
