"""Requests that a web page makes in the browser of somebody who may reach the server, and its maker may not.

A browser tells of the page with the header ``Origin``, which other clients do not send.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from mnserve.access.addresses import is_loopback
from mnserve.errors import PermissionDeniedError
from mnserve.http.headers import Scope, header_of
from mnserve.text.names import printable, shortened

_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_PORTS: Final = MappingProxyType({"http": 80, "https": 443})


def check_origin(scope: Scope, *, local: bool) -> None:
    """Checks that a request comes from no page of another site, where that would do harm.

    Args:
        scope: Scope of the request.
        local: The server is for this machine alone, and asks for no token. Then it has the names of this machine alone:
            a page whose own name leads here (DNS rebinding) could read what it answers.

    Raises:
        PermissionDeniedError: It does.
    """
    if local:
        check_host(scope)
    if scope["method"] in _SAFE or (origin := header_of(scope, b"origin")) is None:
        return
    asked = header_of(scope, b"host") or ""
    try:
        parts = urlsplit(origin)
        port = _PORTS.get(parts.scheme)
        host = urlsplit(f"//{asked}")
        own = (
            parts.hostname is not None
            and parts.hostname == host.hostname
            and (parts.port or port) == (host.port or port)
        )
    except ValueError:
        own = False
    if not own:
        raise PermissionDeniedError(
            f"the page '{origin[:80]}' may not call this server; use its own page, or a client that is no browser"
        )


def check_host(scope: Scope) -> None:
    """Checks that a request calls the server by a name of this machine alone.

    Raises:
        PermissionDeniedError: It does not.
    """
    host = header_of(scope, b"host")
    if host is not None and not _is_own_name(host):  # HTTP/1.0 does without, and no browser does
        raise PermissionDeniedError(
            f"the server is called as '{printable(shortened(host, 64))}', and it answers as localhost or 127.0.0.1 "
            "alone; use one of them, or start it with --token-file"
        )


@lru_cache(maxsize=64)  # clients send one name again and again
def _is_own_name(host: str) -> bool:
    """Tells if a name with its port can be none but this machine; browsers find all names below localhost here."""
    name, separator, port = host.rpartition(":")
    if not separator or not (not port or port.isdigit()) or (":" in name and not name.endswith("]")):
        name = host
    name = name.lower().removesuffix(".")
    return not any(map(str.isspace, name)) and (is_loopback(name) or name.endswith(".localhost"))
