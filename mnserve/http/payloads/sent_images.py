"""Image files that came with a request, not decoded yet."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mnserve.errors import InvalidRequestError
from mnserve.text.names import printable, shortened

_DATA_URL: Final = re.compile(r"data:[\w.+/-]{1,100};base64,")


@dataclass(frozen=True, kw_only=True)
class SentImages:
    """Images of a request, a row each.

    Attributes:
        files: Contents of image files.
        names: Names of the images, for messages.
        resize: Stretch images of another size where the model states no rule for them.
        position: Position of the input among those of the request; None where it has none yet.
    """

    files: Sequence[bytes]
    names: Sequence[str]
    resize: bool = False
    position: int | None = None


def base64_bytes(text: str, what: str) -> bytes:
    """Decodes base64 text, which may be a ``data:`` address.

    Args:
        text: The text.
        what: What it is, for messages.

    Raises:
        InvalidRequestError: It is no base64.
    """
    start = _DATA_URL.match(text)
    try:
        return binascii.a2b_base64(text[start.end() :] if start else text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError(f"{what} is no base64 text: {error}; encode the file as base64") from None


def shown_name(name: str, number: int) -> str:
    """Names an image for messages."""
    return f"image {number} ('{printable(shortened(name))}')" if name else f"image {number}"
