"""Requests that a web page makes in the browser of somebody who may reach the server, and its maker may not.

A browser tells of the page with the header ``Origin`` or ``Sec-Fetch-Site``, which other clients do not send.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from mnserve.access.addresses import is_loopback
from mnserve.errors import PermissionDeniedError
from mnserve.http.headers import Scope, header_of

_SAFE: Final = ("GET", "HEAD", "OPTIONS")


def check_origin(scope: Scope, *, local: bool) -> None:
    """Checks that a request that may change something comes from no page of another site.

    Args:
        scope: Scope of the request.
        local: The server is for this machine alone, and asks for no token. A page whose name leads to this machine
            (DNS rebinding) would count as one of its own.

    Raises:
        PermissionDeniedError: It does.
    """
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
