"""Routes of the description of the port: OpenAPI, and a page of it that asks no other host for anything."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final

import orjson
from starlette.routing import BaseRoute

from mnserve.http.answers import JSON, HttpAnswer
from mnserve.http.calls import Call, Request
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices

_READ = ["GET"]
_HTML: Final = b"text/html; charset=utf-8"
_POLICY: Final = b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
_STYLE: Final = """\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
article{border-top:1px solid #8886;padding:.5rem 0}h2{font-size:1rem;margin:.5rem 0}
code{font:.95em ui-monospace,monospace}
b{display:inline-block;min-width:3.5rem}ul{margin:.3rem 0}pre{overflow:auto;border:1px solid #8886;padding:.5rem}"""


def description_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of the description, which need no token."""
    return [
        JsonRoute("/openapi.json", Call(services, _openapi, right=None), methods=_READ),
        JsonRoute("/docs", Call(services, _page, right=None), methods=_READ),
    ]


async def _openapi(_request: Request) -> HttpAnswer:
    return HttpAnswer(_text(), JSON)


async def _page(_request: Request) -> HttpAnswer:
    headers = ((b"content-security-policy", _POLICY), (b"x-content-type-options", b"nosniff"))
    return HttpAnswer(_html(), _HTML, headers=headers)


@cache
def _text() -> bytes:
    return (files("mnserve.http") / "openapi.json").read_bytes()


@cache
def _html() -> bytes:
    document = orjson.loads(_text())
    info = document["info"]
    calls = "".join(
        _call(method, path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    parts = document["components"]
    bodies = "".join(_body(name, schema) for name, schema in parts["schemas"].items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(info['title'])}: calls over HTTP</title><style>{_STYLE}</style><main>"
        f"<h1>{escape(info['summary'])}</h1><p>{escape(info['description'])} "
        f'<a href="openapi.json">openapi.json</a> is the same for programs.</p>{calls}'
        f"<h1>Bodies</h1>{bodies}</main></html>"
    ).encode()


def _body(name: str, schema: dict[str, Any]) -> str:
    text = orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()
    return f"<article><h2>{escape(name)}</h2><pre>{escape(text)}</pre></article>"


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    answers = "".join(f"<li>{escape(line)}</li>" for line in _answers(operation))
    return (
        f"<article><h2><b>{method.upper()}</b> <code>{escape(path)}</code></h2>"
        f"<p>{escape(operation['summary'])}. {escape(operation['description'])}</p><ul>{answers}</ul></article>"
    )


def _answers(operation: dict[str, Any]) -> Iterator[str]:
    if "requestBody" in operation:
        yield "takes " + ", ".join(operation["requestBody"]["content"])
    done = operation["responses"]["200"]
    yield f"200: {done['description']}"
    if failures := [status for status in operation["responses"] if status != "200"]:
        yield f"{', '.join(failures)}: refused, or failed"
