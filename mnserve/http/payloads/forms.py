"""Requests of inference as ``multipart/form-data``: image files, and fields of text beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from mnserve.errors import InvalidRequestError
from mnserve.http.payloads.sent_images import SentImages, shown_name
from mnserve.text.names import printable, shortened

REQUEST: Final = "request"
"""Field with JSON beside the images: id, parameters and outputs."""
RESIZE: Final = "resize"
_MAX_FIELDS: Final = 8
_MAX_FILES: Final = 1024
_MAX_FIELD_BYTES: Final = 65_536


class _InMemory(MultiPartParser):
    """The body is in memory already, within its limit; so no file is written."""

    spool_max_size = 2**31


def read_form(content_type: str, body: bytes) -> tuple[bytes, SentImages]:
    """Reads a form; takes a while, so that it is something for a thread.

    Args:
        content_type: Header ``Content-Type``, with the boundary.
        body: The body.

    Returns:
        The JSON of the field ``request``, an empty object where there is none; the files, in order.

    Raises:
        InvalidRequestError: The body is no form, or one with other fields.
    """
    return asyncio.run(_read(content_type, body))


async def _read(content_type: str, body: bytes) -> tuple[bytes, SentImages]:
    async def stream() -> AsyncIterator[bytes]:
        yield body

    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if boundary and b"--" + boundary + b"--" not in body:  # the parser drops a part without an end
        raise InvalidRequestError("the body is no form of this call: it has no end; send all of it")
    headers = Headers({"content-type": content_type})
    try:
        parser = _InMemory(
            headers,
            stream(),  # type: ignore[arg-type]  # any iterator would do
            max_files=_MAX_FILES,
            max_fields=_MAX_FIELDS,
            max_part_size=_MAX_FIELD_BYTES,
        )
        form = await parser.parse()
    except (MultiPartException, FormParserError) as error:
        reason = getattr(error, "message", None) or "it cannot be parsed"
        raise InvalidRequestError(f"the body is no form of this call: {reason}") from None
    try:
        return await _content(form)
    finally:
        await form.close()


async def _content(form: FormData) -> tuple[bytes, SentImages]:
    text, resize = b"{}", False
    files: list[bytes] = []
    names: list[str] = []
    for field, value in form.multi_items():
        if isinstance(value, UploadFile):
            names.append(shown_name(value.filename or "", len(files)))
            files.append(await value.read())
        elif field == REQUEST:
            text = value.encode()
        elif field == RESIZE:
            if value not in ("true", "false"):
                raise InvalidRequestError(
                    f"the field {RESIZE} of the form is '{printable(shortened(value))}'; it must be true or false"
                )
            resize = value == "true"
        else:
            raise InvalidRequestError(
                f"the form has the field '{printable(shortened(field))}', which is no file; there are {REQUEST} "
                f"(JSON), {RESIZE} (true or false), and files, as `curl -F image=@FILE` sends them"
            )
    return text, SentImages(files=files, names=names, resize=resize)
