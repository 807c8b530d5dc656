"""Other sites cannot use a browser to read from the console, or to change something through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from mnserve.console.same_site import SameSite

OpenConsole = Callable[..., Awaitable[httpx.AsyncClient]]
JSON = {"content-type": "application/json"}
FORM = {"content-type": "text/plain"}
UNLOAD = "/console/api/models/double/unload"
STATUS = "/console/api/status"


@pytest.fixture
async def console(open_console: OpenConsole, double_model: Callable[..., Any]) -> httpx.AsyncClient:
    """A console without tokens, for this machine alone."""
    double_model()
    return await open_console(model_control="explicit", load_model=("double",))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 200),
        (JSON | {"sec-fetch-site": "same-origin"}, 200),
        ({}, 403),
        (FORM, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 403),
        (JSON | {"sec-fetch-site": "cross-site"}, 403),
        (JSON | {"sec-fetch-site": "same-site"}, 403),
        (JSON | {"origin": "https://evil.example"}, 403),
        (JSON | {"origin": "null"}, 403),
        (JSON | {"host": "evil.example"}, 403),
        (JSON | {"host": "evil.example", "origin": "http://evil.example"}, 403),
    ],
)
async def test_a_change_cannot_be_forged(console: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    answer = await console.post(UNLOAD, content=b"{}", headers=headers)
    assert answer.status_code == status, answer.text
    loaded = (await console.get(STATUS)).json()["models"][0]["loaded"]
    assert loaded == (status != 200)


@pytest.mark.parametrize("headers", [{"host": "evil.example:8000"}, {"sec-fetch-site": "cross-site"}])
async def test_nothing_is_told_to_another_site(console: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await console.get(STATUS, headers=headers)
    assert answer.status_code == 403
    assert "double" not in answer.text


async def test_the_page_may_be_linked_to(console: httpx.AsyncClient) -> None:
    answer = await console.get("/console/", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/console/", "/console/main.js", STATUS, "/console/none", "/console/api/none"])
async def test_every_answer_says_what_the_page_may_do(console: httpx.AsyncClient, path: str) -> None:
    headers = (await console.get(path)).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("no-store" if "/api/" in path else "no-cache")


async def _reached(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def status_of(guard: SameSite, host: str, *, method: str = "GET", site: str | None = None) -> int:
    headers = [(b"host", host.encode()), (b"content-type", b"application/json")]
    headers += [] if site is None else [(b"sec-fetch-site", site.encode())]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await guard({"type": "http", "method": method, "path": STATUS, "headers": headers}, None, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("[::1]", 200),
        ("127.evil.example:80", 403),
        ("", 403),
    ],
)
async def test_a_local_server_has_the_names_of_this_machine(host: str, status: int) -> None:
    assert await status_of(SameSite(_reached, open_locally=True, tokens=False), host) == status


async def test_with_tokens_a_proxy_may_have_any_name() -> None:
    guard = SameSite(_reached, open_locally=False, tokens=True)
    assert await status_of(guard, "console.example", method="POST", site="cross-site") == 200
    open_to_all = SameSite(_reached, open_locally=False, tokens=False)
    assert await status_of(open_to_all, "console.example") == 200
    assert await status_of(open_to_all, "console.example", site="cross-site") == 403
