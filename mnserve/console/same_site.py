"""Answers for pages of this server alone: other sites can neither call nor frame it, nor run code in its page.

A browser sends what any site tells it to, from a place that may reach this server where the site does not. Calls that
change something are JSON, which another site may not send without being let to; ``mnserve.http.origins`` refuses those
that a browser marks as another site's. Where no token is needed, nothing is told to them either. A server on the
loopback address answers under names of this machine alone then, since a site may have its own name lead there.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException

from mnserve.errors import PermissionDeniedError
from mnserve.http.answers import json_answer
from mnserve.http.failures import failure
from mnserve.http.headers import Scope, header_of
from mnserve.http.origins import check_host

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types default",
    )
)
HEADERS: Final = tuple(
    (name.encode(), value.encode())
    for name, value in (
        ("content-security-policy", _POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    )
)
_NAMES: Final = frozenset((b"cache-control", *(name for name, _ in HEADERS)))
_SAFE: Final = ("GET", "HEAD")
_OWN_SITES: Final = (None, "same-origin", "none")
_API: Final = "/api/"
_JSON: Final = "application/json"


class SameSite:
    """Guards an application of ASGI.

    Args:
        app: The application.
        open_locally: Calls need no token, and only this machine can connect.
        tokens: Calls need tokens, which no other site knows.
    """

    def __init__(self, app: Any, *, open_locally: bool, tokens: bool) -> None:
        self._app, self._open_locally, self._tokens = app, open_locally, tokens

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one request, or refuses it."""

        async def send_guarded(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = [(name, value) for name, value in message["headers"] if name.lower() not in _NAMES]
                kept = b"no-store" if _API in scope["path"] else b"no-cache"
                message = message | {"headers": [*own, *HEADERS, (b"cache-control", kept)]}
            await send(message)

        try:
            self._check(scope)
        except PermissionDeniedError as error:
            await failure(error).send(send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except HTTPException as error:  # of the files: there is no such file, or it cannot be written to
            await json_answer({"error": f"{error.detail}: {scope['path'][:80]}"}, error.status_code).send(send_guarded)

    def _check(self, scope: Scope) -> None:
        changes = scope["method"] not in _SAFE
        media_type = (header_of(scope, b"content-type") or "").partition(";")[0].strip().lower()
        if changes and media_type != _JSON:
            raise PermissionDeniedError(f"calls of the console are JSON; send the header Content-Type: {_JSON}")
        if self._open_locally:
            check_host(scope)
        site = header_of(scope, b"sec-fetch-site")
        if not self._tokens and site not in _OWN_SITES and (changes or _API in scope["path"]):
            raise PermissionDeniedError("the call comes from another site; open the console itself")
