"""Routes of health. Those of the server need no token, that of a model does."""

from __future__ import annotations

from starlette.routing import BaseRoute

from mnserve.http.answers import HttpAnswer, json_answer
from mnserve.http.calls import Call, Request
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices
from mnserve.protocol import service_pb2 as pb


def health_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of health."""
    model_ready = Call(services, _model_ready, right="ModelReady")
    return [
        JsonRoute("/v2/health/live", Call(services, _live, right="ServerLive"), methods=["GET"]),
        JsonRoute("/v2/health/ready", Call(services, _ready, right="ServerReady"), methods=["GET"]),
        JsonRoute("/v2/models/{model}/ready", model_ready, methods=["GET"]),
        JsonRoute("/v2/models/{model}/versions/{version}/ready", model_ready, methods=["GET"]),
    ]


async def _live(request: Request) -> HttpAnswer:
    response = await request.ask(request.calls.ServerLive, pb.ServerLiveRequest())
    return _verdict({"live": response.live}, response.live)


async def _ready(request: Request) -> HttpAnswer:
    response = await request.ask(request.calls.ServerReady, pb.ServerReadyRequest())
    return _verdict({"ready": response.ready}, response.ready)


async def _model_ready(request: Request) -> HttpAnswer:
    model, version = request.path["model"], request.path.get("version", "")
    message = pb.ModelReadyRequest(name=model, version=version)
    response = await request.ask(request.calls.ModelReady, message)
    return _verdict({"name": model, "ready": response.ready}, response.ready)


def _verdict(content: dict[str, object], good: bool) -> HttpAnswer:
    """The protocol has 4xx for no."""
    return json_answer(content, 200 if good else 400)
