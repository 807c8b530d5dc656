"""Input of a prediction as the page sends it: JSON of a known form, with bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mnserve.errors import InvalidRequestError
from mnserve.text.json_text import parse_json
from mnserve.text.names import printable, shortened

MAX_IMAGES: Final = 32
"""Most images of one prediction."""
MAX_VALUES: Final = 500_000
"""Most values of one prediction: reading JSON keeps the event loop waiting. A file in base64 is one value."""
_KINDS: Final = ("images", "rows", "tensors")


@dataclass(frozen=True, kw_only=True)
class ImageFile:
    """An image file: its name, and its content in base64."""

    name: str
    data: str


@dataclass(frozen=True, kw_only=True)
class TrialInput:
    """What a model is tried with: images, rows or tensors.

    Attributes:
        model: Name of the model.
        version: Its version; empty is the one that requests get.
        explain: Tell the neighbors, and the answer without adaptation.
        images: Image files, or None.
        rows: Text of a table or JSON, or None.
        tensors: Input name -> nested lists, or None; the body has them as they are, or as the text of their JSON.
    """

    model: str
    version: str = ""
    explain: bool = False
    images: tuple[ImageFile, ...] | None = None
    rows: str | None = None
    tensors: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, text: bytes) -> TrialInput:
        """Reads the body of a call.

        Raises:
            InvalidRequestError: It is no such JSON.
        """
        try:
            body = _parsed(text.decode("utf-8"), "the body")
        except UnicodeDecodeError as error:
            raise InvalidRequestError(f"the body is no JSON: {error}") from None
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            raise InvalidRequestError('the body has no model; send an object such as {"model": "digits", "images": []}')
        given = [kind for kind in _KINDS if body.get(kind) is not None]
        if len(given) != 1:
            raise InvalidRequestError(f"the body has {' and '.join(given) or 'no input'}; send one of {_KINDS}")
        version = body.get("version", "")
        explain = body.get("explain", False)
        if not isinstance(version, str) or not isinstance(explain, bool):
            raise InvalidRequestError("version has to be a text, and explain true or false")
        rows, tensors = body.get("rows"), body.get("tensors")
        if rows is not None and not isinstance(rows, str):
            raise InvalidRequestError("rows has to be the text of a table")
        tensors = _tensors(tensors) if isinstance(tensors, str) else tensors
        if tensors is not None and not isinstance(tensors, dict):
            raise InvalidRequestError("tensors has to be an object of input names and lists")
        images = None if body.get("images") is None else _images(body["images"])
        return cls(model=body["model"], version=version, explain=explain, images=images, rows=rows, tensors=tensors)


def _parsed(text: str, what: str) -> Any:
    if sum(text.count(mark) for mark in ",[{") > MAX_VALUES:
        raise InvalidRequestError(f"{what} has more than {MAX_VALUES:,} values; predict them with a client")
    try:
        return parse_json(text, strict=True)
    except ValueError as error:
        raise InvalidRequestError(f"{what} is no JSON: {error}") from None


def _tensors(text: str) -> Any:
    """Reads tensors that are sent as a person wrote them: a browser would round their large numbers."""
    return _parsed(text, "the text of the tensors")


def _images(plain: Any) -> tuple[ImageFile, ...]:
    if not isinstance(plain, list) or not 1 <= len(plain) <= MAX_IMAGES:
        raise InvalidRequestError(f"images has to be a list of 1 to {MAX_IMAGES} files")
    files = []
    for item in plain:
        if not isinstance(item, dict) or not all(isinstance(item.get(key), str) for key in ("name", "data")):
            raise InvalidRequestError('an image has to be an object such as {"name": "a.png", "data": "BASE64"}')
        files.append(ImageFile(name=printable(shortened(item["name"])), data=item["data"]))
    return tuple(files)
