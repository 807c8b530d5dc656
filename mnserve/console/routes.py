"""Routes of the console: its page, and the calls that the page makes.

The page needs no token, since it holds nothing but itself. Its calls need the rights of the calls of the protocol that
do the same.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from importlib.metadata import version as distribution_version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Router
from starlette.staticfiles import StaticFiles

from mnserve.console.description import describe, describe_state
from mnserve.console.neighbor_images import PublishedImages
from mnserve.console.same_site import SameSite
from mnserve.console.server_start import start_id
from mnserve.console.trial import Trials
from mnserve.console.trial_input import TrialInput
from mnserve.errors import RequestError
from mnserve.execution.latency_buckets import BOUNDS_NS
from mnserve.http.answers import HttpAnswer, json_answer
from mnserve.http.calls import Call, Request
from mnserve.http.headers import Scope
from mnserve.http.routing import JsonRoute
from mnserve.http.services import SERVICE, HttpServices
from mnserve.protocol import service_pb2 as pb

PATH: Final = "/console"
"""Path of the page."""
MAX_INPUT_BYTES: Final = 24 * 1024 * 1024
"""Largest input of a prediction."""
_INLINE_BYTES: Final = 2**16
"""Inputs up to this size are read on the event loop."""
_READ: Final = "RepositoryIndex"
"""Call of the protocol whose right suffices to see what the page shows."""
_LOAD: Final = "RepositoryModelLoad"
_UNLOAD: Final = "RepositoryModelUnload"


def further_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of the HTTP port beside those of the protocol: those of the console, if it is asked for."""
    return Console(services).routes() if services.settings.console else []


class Console:
    """Answers the calls of the page.

    Args:
        services: Services of the process that takes calls in.
    """

    def __init__(self, services: HttpServices) -> None:
        self._services, self._start = services, start_id()
        settings = services.settings
        self._trials = Trials(services.models, PublishedImages(Path(settings.repository)), settings.max_message_bytes)

    def routes(self) -> list[BaseRoute]:
        """Returns the routes, to be mounted at the root."""
        services = self._services
        call = partial(Call, services)
        api: list[BaseRoute] = [
            JsonRoute("/status", call(self._status, right=_READ), methods=["GET"]),
            JsonRoute("/models", call(self._models, right=_READ), methods=["GET"]),
            JsonRoute(
                "/predict",
                call(
                    self._predict,
                    right="ModelInfer",
                    most=min(MAX_INPUT_BYTES, services.settings.max_message_bytes),
                    places=services.limits.inference,
                    cancellable=True,
                ),
                methods=["POST"],
            ),
            JsonRoute(
                "/models/{model}/load",
                call(self._load, right=_LOAD, places=services.limits.loads),
                methods=["POST"],
            ),
            JsonRoute("/models/{model}/unload", call(self._unload, right=_UNLOAD), methods=["POST"]),
        ]
        page = StaticFiles(directory=str(files("mnserve.console") / "page"), html=True)
        guard = Middleware(SameSite, open_locally=services.is_open_locally, tokens=services.authorization is not None)
        return [
            JsonRoute("/", _to_page, methods=["GET"]),
            JsonRoute(PATH, _to_page, methods=["GET"]),
            Mount(
                PATH,
                routes=[
                    Mount("/api", app=Router(api, redirect_slashes=False, default=_no_call)),
                    Mount("/", app=GZipMiddleware(page, compresslevel=5)),
                ],
                middleware=[guard],
            ),
        ]

    async def _status(self, request: Request) -> HttpAnswer:
        """Tells the state of the server and of its models, with their counters."""
        models = self._services.models
        return _answer(
            {
                "name": self._services.settings.server_name,
                "release": distribution_version("mn-runtime"),
                "ready": models.ready,
                "control": self._services.settings.model_control,
                "may_control": self._may_control(request),
                "start": self._start,
                "monotonic": time.monotonic(),
                "bounds_ns": BOUNDS_NS,
                "models": [describe_state(state) for state in models.states()],
                "counters": await models.snapshots(),
            }
        )

    def _may_control(self, request: Request) -> bool:
        authorization = self._services.authorization
        if authorization is None:
            return True
        try:
            authorization.check(f"{SERVICE}{_LOAD}", request.context.invocation_metadata())
        except RequestError:
            return False
        return True

    async def _models(self, request: Request) -> HttpAnswer:
        """Describes all models: what they take and answer."""
        return _answer([describe(state) for state in self._services.models.states()])

    async def _predict(self, request: Request) -> HttpAnswer:
        """Makes a prediction."""
        large = len(request.body) > _INLINE_BYTES
        given = (
            await asyncio.to_thread(TrialInput.from_json, request.body) if large else TrialInput.from_json(request.body)
        )
        return _answer(await self._trials.predict(given, partial(request.ask, request.calls.ModelInfer)))

    async def _load(self, request: Request) -> HttpAnswer:
        """Loads a model, or loads it again."""
        message = pb.RepositoryModelLoadRequest(model_name=request.path["model"])
        await request.ask(request.calls.RepositoryModelLoad, message)
        return _answer({})

    async def _unload(self, request: Request) -> HttpAnswer:
        """Takes a model out."""
        message = pb.RepositoryModelUnloadRequest(model_name=request.path["model"])
        await request.ask(request.calls.RepositoryModelUnload, message)
        return _answer({})


def _answer(content: Any) -> HttpAnswer:
    """Makes an answer in ASCII, since names of classes and columns may have characters that no UTF-8 text has."""
    return HttpAnswer(json.dumps(content, allow_nan=False).encode("ascii"))


async def _to_page(request: Any) -> Response:
    return RedirectResponse(f"{PATH}/", status_code=307)


async def _no_call(scope: Scope, _receive: Any, send: Any) -> None:
    """Answers an address below those of the calls that there is not."""
    await json_answer({"error": f"there is no call {scope['path'][:80]}; the page is at {PATH}/"}, 404).send(send)
