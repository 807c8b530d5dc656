"""Room for the image of a request, told from the head of its file: a file of kilobytes may claim millions of pixels.

A model of any size gets an image as it is, so that the caller alone says how large its tensor is. The bound is that of
any message: what ``ImageInput.has_room`` is for pixels that are there, this is for those that are not decoded yet.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import Final

from PIL import Image

from mnserve.client.image_decoding import SENT_FORMATS
from mnserve.errors import MessageTooLargeError
from mnserve.predicting.image_input import ImageInput

_ORIENTATION: Final = 0x0112
"""Tag of Exif. Pillow turns the sides of TIFF files by itself."""
_ON_ITS_SIDE: Final = (5, 6, 7, 8)


def check_room(taken: ImageInput, content: bytes, name: str, most_bytes: int, before: int = 0) -> int:
    """Checks that a request may carry an image, before its pixels are decoded.

    Args:
        taken: Input of the model.
        content: The file; one whose head cannot be read passes, and is refused where it is decoded.
        name: Its name, for messages.
        most_bytes: Largest request.
        before: Bytes of the tensor that the images before this one take.

    Returns:
        Bytes of the tensor with this image.

    Raises:
        MessageTooLargeError: The tensor would be larger.
    """
    height, width = taken.size.height, taken.size.width
    if height is None or width is None:
        sides = _sides(content)
        if sides is None:
            return before
        height, width = height or sides[0], width or sides[1]
    nbytes = before + taken.size.channels * height * width * taken.dtype.itemsize
    if nbytes > most_bytes:
        raise MessageTooLargeError(
            f"the tensor that the model would get has {nbytes:,} bytes with {name}, of {width}x{height} pixels (width "
            f"x height), and a request has at most {most_bytes:,} (--max-message-bytes); scale the image down"
        )
    return nbytes


def _sides(content: bytes) -> tuple[int, int] | None:
    """Returns height and width of the upright image, as the head of a file has them; None where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(BytesIO(content), formats=SENT_FORMATS) as image:
                turned = image.format != "TIFF" and image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE
                return (image.width, image.height) if turned else (image.height, image.width)
    except Exception:  # noqa: BLE001  parsers of heads raise any kind of error; decoding tells which
        return None
