"""The application of ASGI that answers the HTTP port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.routing import BaseRoute, Router

from mnserve.http.answers import json_answer
from mnserve.http.routes.health import health_routes
from mnserve.http.routes.inference import inference_routes
from mnserve.http.routes.memory import memory_routes
from mnserve.http.routes.models import model_routes
from mnserve.http.routes.repository import control_routes
from mnserve.http.routes.settings import setting_routes
from mnserve.http.services import HttpServices

_ROUTES: Final = (
    inference_routes,
    health_routes,
    model_routes,
    control_routes,
    memory_routes,
    setting_routes,
)


def make_application(services: HttpServices, routes: Sequence[BaseRoute] = ()) -> Any:
    """Makes the application.

    Args:
        services: What calls are answered from.
        routes: Further routes, such as those of a page; those of the protocol come first.
    """
    return Router(
        [*(route for make in _ROUTES for route in make(services)), *routes],
        redirect_slashes=False,
        default=_not_found,
    )


async def _not_found(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    path = scope["path"][:80]
    await json_answer({"error": f"there is nothing at {path}; GET /openapi.json lists what there is"}, 404).send(send)
