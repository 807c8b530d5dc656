"""Routes that describe the server and its models."""

from __future__ import annotations

from typing import Final

from starlette.routing import BaseRoute

from mnserve.http.answers import HttpAnswer
from mnserve.http.calls import Call, Request
from mnserve.http.metrics import metrics_answer
from mnserve.http.payloads.messages import message_answer
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices
from mnserve.protocol import service_pb2 as pb

_READ = ["GET"]
_EXTENSIONS: Final = ("binary_tensor_data", "parameters")
"""Extensions that HTTP has beside those of gRPC."""


def model_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of metadata, configuration and statistics."""
    metadata = Call(services, _model_metadata, right="ModelMetadata")
    config = Call(services, _config, right="ModelConfig")
    statistics = Call(services, _statistics, right="ModelStatistics")
    return [
        JsonRoute("/metrics", Call(services, _metrics, right="ServerMetadata"), methods=_READ),
        JsonRoute("/v2", Call(services, _metadata, right="ServerMetadata"), methods=_READ),
        JsonRoute("/v2/", Call(services, _metadata, right="ServerMetadata"), methods=_READ),
        JsonRoute("/v2/models/stats", statistics, methods=_READ),
        JsonRoute("/v2/models/{model}", metadata, methods=_READ),
        JsonRoute("/v2/models/{model}/versions/{version}", metadata, methods=_READ),
        JsonRoute("/v2/models/{model}/config", config, methods=_READ),
        JsonRoute("/v2/models/{model}/versions/{version}/config", config, methods=_READ),
        JsonRoute("/v2/models/{model}/stats", statistics, methods=_READ),
        JsonRoute("/v2/models/{model}/versions/{version}/stats", statistics, methods=_READ),
    ]


async def _metadata(request: Request) -> HttpAnswer:
    response = await request.ask(request.calls.ServerMetadata, pb.ServerMetadataRequest())
    response.extensions.extend(_EXTENSIONS)
    return message_answer(response)


async def _metrics(request: Request) -> HttpAnswer:
    return metrics_answer(*await request.services.metrics(request.context.header(b"accept") or ""))


async def _model_metadata(request: Request) -> HttpAnswer:
    message = pb.ModelMetadataRequest(name=request.path["model"], version=request.path.get("version", ""))
    return message_answer(await request.ask(request.calls.ModelMetadata, message))


async def _config(request: Request) -> HttpAnswer:
    message = pb.ModelConfigRequest(name=request.path["model"], version=request.path.get("version", ""))
    response = await request.ask(request.calls.ModelConfig, message)
    return message_answer(response.config)


async def _statistics(request: Request) -> HttpAnswer:
    message = pb.ModelStatisticsRequest(name=request.path.get("model", ""), version=request.path.get("version", ""))
    return message_answer(await request.ask(request.calls.ModelStatistics, message))
