"""The application of ASGI that answers the HTTP port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.routing import BaseRoute, Router

from mnserve.http.routes.description import description_routes
from mnserve.http.routes.health import health_routes
from mnserve.http.routes.inference import inference_routes
from mnserve.http.routes.memory import memory_routes
from mnserve.http.routes.models import model_routes
from mnserve.http.routes.repository import control_routes
from mnserve.http.routes.settings import setting_routes
from mnserve.http.routing import not_found
from mnserve.http.services import HttpServices

_ROUTES: Final = (
    inference_routes,
    health_routes,
    model_routes,
    control_routes,
    memory_routes,
    setting_routes,
    description_routes,
)


def make_application(services: HttpServices, routes: Sequence[BaseRoute] = ()) -> Any:
    """Makes the application.

    Args:
        services: What calls are answered from.
        routes: Further routes, such as those of a page; those of the protocol come first.
    """
    return Router([*protocol_routes(services), *routes], redirect_slashes=False, default=not_found)


def protocol_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of the protocol."""
    return [route for make in _ROUTES for route in make(services)]
