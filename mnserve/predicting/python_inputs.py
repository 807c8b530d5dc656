"""Images as Python programs hold them, brought to what a model takes.

Shapes: B images, C channels (1 grey, 3 RGB), H height and W width in pixels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mnserve.client.image_fit import ImageFit
from mnserve.client.images import Pixels, PixelSize, image_pixels, read_image
from mnserve.errors import ImageError

_FIRST: Final = (1, 3)
_LAST: Final = (1, 3, 4)
_SHAPES: Final = (
    "a batch has the shape [B, C, H, W] or [B, H, W, C], and one image in a list [H, W], [C, H, W] or [H, W, C]"
)


def read_pixels(images: Any, size: PixelSize, fit: ImageFit | None) -> Iterator[Pixels]:
    """Yields images uint8 [H, W, C] of a model's size, one after another.

    Args:
        images: Array uint8 [B, C, H, W] or [B, H, W, C], or a sequence of paths, Pillow images and arrays of one image.
        size: Size that the model takes.
        fit: Rule for images of another size; None refuses them.

    Raises:
        ImageError: There is no image, or one cannot be used; the message has its number, from 1.
    """
    if isinstance(images, (str, os.PathLike, Image.Image)):
        images = [images]
    if is_array(images):
        images = np.asarray(images)
        if images.ndim != 4:
            raise ImageError(f"the images are an array of shape {list(images.shape)}; {_SHAPES}")
    if not len(images):
        raise ImageError("there are no images to predict; give at least one")
    for number, image in enumerate(images, start=1):
        if isinstance(image, (str, os.PathLike)):
            yield read_image(Path(image), size, fit=fit)
        elif isinstance(image, Image.Image):
            yield image_pixels(image.copy(), f"image {number}", size, fit=fit)
        else:
            yield _of_array(np.asarray(image), f"image {number}", size, fit)


def is_array(value: Any) -> bool:
    """Tells an array of any library from a sequence and from a picture."""
    return hasattr(value, "__array__") and not isinstance(value, Image.Image)


def _of_array(array: NDArray[Any], name: str, size: PixelSize, fit: ImageFit | None) -> Pixels:
    if array.dtype != np.uint8:
        raise ImageError(
            f"{name}: its pixels are {array.dtype}, the model takes uint8 from 0 to 255; for shares from 0 to 1 give "
            "(255 * images).round().astype('uint8')"
        )
    if array.ndim == 2:
        array = array[..., np.newaxis]
    elif array.ndim == 3 and array.shape[0] in _FIRST:
        array = array.transpose(1, 2, 0)
    if array.ndim != 3 or array.shape[2] not in _LAST or not array.size:
        raise ImageError(f"{name}: an array of shape {list(array.shape)}; {_SHAPES}")
    height, width, channels = array.shape
    if (height, width, channels) == (size.height or height, size.width or width, size.channels):
        return array
    pixels = np.ascontiguousarray(array[..., 0] if channels == 1 else array)
    return image_pixels(Image.fromarray(pixels), name, size, fit=fit)
