"""Route of inference."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from starlette.routing import BaseRoute

from mnserve.errors import InvalidRequestError
from mnserve.http.answers import HttpAnswer
from mnserve.http.bodies import parsed_length
from mnserve.http.calls import Call, Request
from mnserve.http.payloads.answers import write_answer
from mnserve.http.payloads.requests import ReadRequest, read_request
from mnserve.http.routing import JsonRoute
from mnserve.http.services import HttpServices

if TYPE_CHECKING:
    from mnserve.http.payloads.image_turns import ImageTurns

_INLINE_BYTES: Final = 2**16
"""Bodies up to this size are read, and answers written, on the event loop."""
_LARGE_BYTES: Final = 2**22
_FORM: Final = "multipart/form-data"


def inference_routes(services: HttpServices) -> list[BaseRoute]:
    """Returns the routes of inference."""
    infer = Call(
        services,
        _Inference().answer,
        right="ModelInfer",
        most=services.settings.max_message_bytes,
        places=services.limits.inference,
        cancellable=True,
    )
    return [
        JsonRoute("/v2/models/{model}/infer", infer, methods=["POST"]),
        JsonRoute("/v2/models/{model}/versions/{version}/infer", infer, methods=["POST"]),
    ]


class _Inference:
    """Answers requests of inference."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        """Held while a large JSON text is read: its values take many times its size."""
        self._images: ImageTurns | None = None

    async def answer(self, request: Request) -> HttpAnswer:
        media_type = request.context.header(b"content-type") or ""
        if media_type.lower().startswith(_FORM):
            read = await self._read_form(request, media_type)
        else:
            read = await self._read_body(request)
        if read.images is not None:
            await self._put_images(request, read)
        response = await request.ask(request.calls.ModelInfer, read.message)
        if sum(map(len, response.raw_output_contents)) > _INLINE_BYTES:
            return await asyncio.to_thread(write_answer, response, read.form)
        return write_answer(response, read.form)

    async def _read_body(self, request: Request) -> ReadRequest:
        header = request.context.header(b"inference-header-content-length")
        json_bytes = None if header is None else parsed_length(header, "Inference-Header-Content-Length")
        arguments = (request.body, json_bytes, request.path["model"], request.path.get("version", ""))
        size = len(request.body) if json_bytes is None else json_bytes
        if size <= _INLINE_BYTES:
            return read_request(*arguments)
        async with self._turn if size > _LARGE_BYTES else nullcontext():
            return await asyncio.to_thread(read_request, *arguments)

    async def _read_form(self, request: Request, media_type: str) -> ReadRequest:
        from mnserve.http.payloads.forms import read_form  # loads the parser, which other requests do without

        text, images = await asyncio.to_thread(read_form, media_type, request.body)
        read = read_request(text, None, request.path["model"], request.path.get("version", ""))
        if read.message.inputs:
            raise InvalidRequestError("the field request has inputs, and the form has files; send one or the other")
        return replace(read, images=images)

    async def _put_images(self, request: Request, read: ReadRequest) -> None:
        from mnserve.http.payloads.image_turns import ImageTurns  # loads Pillow

        if self._images is None:
            self._images = ImageTurns()
        served = request.services.models.find(read.message.model_name, read.message.model_version)
        assert read.images is not None
        await self._images.put(read.images, read.message, served, request.services.settings.max_message_bytes)
