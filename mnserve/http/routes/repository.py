"""Routes that administer the models of a server: list, load, unload."""

from __future__ import annotations

from typing import Final

from starlette.routing import BaseRoute

from mnserve.errors import InvalidRequestError
from mnserve.http.answers import HttpAnswer, json_answer
from mnserve.http.calls import Call, Request
from mnserve.http.payloads.fields import object_of, set_parameters
from mnserve.http.payloads.messages import message_content
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices
from mnserve.protocol import service_pb2 as pb

LOAD_BYTES: Final = 2**20
"""Largest body of a call that loads a model; the configuration in it may have 300,000 bytes."""
_WRITE = ["POST"]


def control_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of the repository."""
    index = Call(services, _index, right="RepositoryIndex")
    load = Call(services, _load, right="RepositoryModelLoad", most=LOAD_BYTES, places=services.limits.loads)
    unload = Call(services, _unload, right="RepositoryModelUnload")
    return [
        JsonRoute("/v2/repository/index", index, methods=_WRITE),
        JsonRoute("/v2/repository/models/{model}/load", load, methods=_WRITE),
        JsonRoute("/v2/repository/models/{model}/unload", unload, methods=_WRITE),
    ]


async def _index(request: Request) -> HttpAnswer:
    ready = request.json().get("ready", False)
    if not isinstance(ready, bool):
        raise InvalidRequestError("the field ready is neither true nor false")
    response = await request.ask(request.calls.RepositoryIndex, pb.RepositoryIndexRequest(ready=ready))
    return json_answer([message_content(model) for model in response.models])


async def _load(request: Request) -> HttpAnswer:
    message = pb.RepositoryModelLoadRequest(model_name=request.path["model"])
    set_parameters(message.parameters, object_of(request.json(), "parameters", "the call"), "the call")
    await request.ask(request.calls.RepositoryModelLoad, message)
    return json_answer({})


async def _unload(request: Request) -> HttpAnswer:
    message = pb.RepositoryModelUnloadRequest(model_name=request.path["model"])
    set_parameters(message.parameters, object_of(request.json(), "parameters", "the call"), "the call")
    await request.ask(request.calls.RepositoryModelUnload, message)
    return json_answer({})
