"""The OpenAPI document has what the server has, and the page asks no other host for anything."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import MagicMock

import httpx
from jsonschema import Draft202012Validator
from starlette.routing import Route

from mnserve.http.application import protocol_routes

ServeHttp = Callable[..., Awaitable[httpx.AsyncClient]]


async def test_every_route_is_described_and_nothing_else(
    serve_http: ServeHttp, double_model: Callable[..., Path]
) -> None:
    double_model()
    client = await serve_http()
    document = (await client.get("/openapi.json")).json()
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    routes = [route for route in protocol_routes(MagicMock()) if isinstance(route, Route)]
    offered = {(method, route.path) for route in routes for method in route.methods or ()}
    assert described == {(method, path) for method, path in offered if method != "HEAD" and path != "/v2/"}
    names = {name for path in document["paths"] for name in re.findall(r"{(\w+)}", path)}
    assert names <= document["components"]["parameters"].keys()


async def test_answers_are_as_described(serve_http: ServeHttp, double_model: Callable[..., Path]) -> None:
    double_model()
    client = await serve_http()
    document = (await client.get("/openapi.json")).json()
    body = document["paths"]["/v2/models/{model}/infer"]["post"]["requestBody"]
    example = body["content"]["application/json"]["examples"]["rows"]["value"]
    for method, path, content in (
        ("get", "/v2", None),
        ("get", "/v2/health/ready", None),
        ("get", "/v2/models/{model}", None),
        ("get", "/v2/models/{model}/stats", None),
        ("post", "/v2/models/{model}/infer", example),
        ("post", "/v2/repository/index", {}),
        ("get", "/v2/logging", None),
        ("get", "/v2/systemsharedmemory/status", None),
    ):
        response = await client.request(method, path.replace("{model}", "double"), json=content)
        assert response.status_code == 200, path
        schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": document["components"]}).validate(response.json())
    failure = (await client.get("/v2/models/none")).json()
    Draft202012Validator(document["components"]["schemas"]["Failure"]).validate(failure)


async def test_the_page_names_every_call_and_asks_for_nothing(
    serve_http: ServeHttp, double_model: Callable[..., Path]
) -> None:
    double_model()
    client = await serve_http()
    response = await client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    for path in (await client.get("/openapi.json")).json()["paths"]:
        assert f"<code>{path}</code>" in response.text
    assert not re.findall(r"https?://|<script|<link|<img|@import|url\(", response.text)
