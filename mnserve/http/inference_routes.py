"""Route of inference."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.routing import BaseRoute, Route

from mnserve.http.answers import HttpAnswer
from mnserve.http.bodies import parsed_length
from mnserve.http.calls import Call, Request
from mnserve.http.json_answers import write_answer
from mnserve.http.json_requests import read_request
from mnserve.http.services import HttpServices
from mnserve.protocol import service_pb2 as pb

_INLINE_BYTES: Final = 2**16
"""Bodies up to this size are read, and answers written, on the event loop."""


def inference_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of inference."""
    infer = Call(
        services,
        _infer,
        right="ModelInfer",
        most=services.settings.max_message_bytes,
        places=services.limits.inference,
        cancellable=True,
    )
    return [
        Route("/v2/models/{model}/infer", infer, methods=["POST"]),
        Route("/v2/models/{model}/versions/{version}/infer", infer, methods=["POST"]),
    ]


async def _infer(request: Request) -> HttpAnswer:
    header = request.context.header(b"inference-header-content-length")
    json_bytes = None if header is None else parsed_length(header, "Inference-Header-Content-Length")
    arguments = (request.body, json_bytes, request.path["model"], request.path.get("version", ""))
    if (len(request.body) if json_bytes is None else json_bytes) > _INLINE_BYTES:
        message, form = await asyncio.to_thread(read_request, *arguments)
    else:
        message, form = read_request(*arguments)
    response: pb.ModelInferResponse = await request.services.calls.ModelInfer(message, request.context)
    if sum(map(len, response.raw_output_contents)) > _INLINE_BYTES:
        return await asyncio.to_thread(write_answer, response, form)
    return write_answer(response, form)
