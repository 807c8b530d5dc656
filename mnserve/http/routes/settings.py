"""Routes of the settings that callers may change: the log, and traces."""

from __future__ import annotations

from typing import Any, Final

from starlette.routing import BaseRoute

from mnserve.errors import InvalidRequestError
from mnserve.http.answers import HttpAnswer, json_answer
from mnserve.http.calls import Call, Request
from mnserve.http.payloads.answers import parameters_of
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices
from mnserve.protocol import service_pb2 as pb
from mnserve.text.names import printable, shortened

_METHODS = ["GET", "POST"]
_LIST: Final = "trace_level"
"""The trace setting that is a list in JSON; the others are text."""


def setting_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of settings: GET lists them, POST changes those that its body names."""
    traces = Call(services, _traces, right="TraceSetting")
    return [
        JsonRoute("/v2/logging", Call(services, _log, right="LogSettings"), methods=_METHODS),
        JsonRoute("/v2/trace/setting", traces, methods=_METHODS),
        JsonRoute("/v2/models/{model}/trace/setting", traces, methods=_METHODS),
    ]


async def _log(request: Request) -> HttpAnswer:
    message = pb.LogSettingsRequest()
    for name, value in _changes(request).items():
        if isinstance(value, bool):
            message.settings[name].bool_param = value
        elif isinstance(value, int) and 0 <= value < 2**32:
            message.settings[name].uint32_param = value
        elif isinstance(value, str):
            message.settings[name].string_param = value
        else:
            raise InvalidRequestError(
                f"the log setting '{_shown(name)}' is neither text, a number from 0 on, true nor false"
            )
    response = await request.ask(request.calls.LogSettings, message)
    return json_answer(parameters_of(response.settings))


async def _traces(request: Request) -> HttpAnswer:
    message = pb.TraceSettingRequest(model_name=request.path.get("model", ""))
    for name, value in _changes(request).items():
        message.settings[name].value.extend(_values(name, value))
    response = await request.ask(request.calls.TraceSetting, message)
    return json_answer(
        {
            name: list(setting.value) if name == _LIST else ",".join(setting.value)
            for name, setting in response.settings.items()
        }
    )


def _changes(request: Request) -> dict[str, Any]:
    """Returns the settings that a request changes.

    Raises:
        InvalidRequestError: It names some, and its method changes nothing.
    """
    settings = request.json()
    if settings and request.method != "POST":
        raise InvalidRequestError(
            f"{request.method} changes no settings, and the body names some; send POST to change them"
        )
    return settings


def _values(name: str, value: Any) -> list[str]:
    """Returns the values of a trace setting; none where it is to be cleared."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if any(isinstance(item, bool) or not isinstance(item, (str, int)) for item in values):
        raise InvalidRequestError(f"the trace setting '{_shown(name)}' is neither text, a number, a list nor null")
    return [str(item) for item in values]


def _shown(text: str) -> str:
    return printable(shortened(text))
