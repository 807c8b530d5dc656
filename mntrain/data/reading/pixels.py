"""Turn decoded pictures into uint8 arrays, the same way for every source.

Shapes: N images, C channels (1 grey, 3 RGB), H height, W width in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import ExifTags, Image, ImageOps

from mntrain.data.config import ImageFit
from mntrain.data.images import ImageArray
from mntrain.data.reading.image_fit import fit_image
from mntrain.errors import DataError

# Pillow's modes of 8 bits and less; the alpha channel, where there is one, is dropped.
_GREY_MODES = frozenset({"1", "L", "LA", "La"})
_COLOR_MODES = frozenset({"RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})
_PALETTE_MODES = frozenset({"P", "PA"})

MAX_PIXELS = 64 * 1024 * 1024
"""Largest picture that is decoded, the same as in prediction; a file of a few kilobytes can claim far more."""


def to_array(image: Image.Image, *, color: str, size: int | None, name: str, fit: ImageFit = "stretch") -> ImageArray:
    """Turn a picture into uint8 [C, H, W], upright, converted to ``color`` and brought to ``size`` pixels square.

    With ``color`` ``auto`` a grey picture keeps one channel; ``stack`` makes the channels of a set agree.

    Raises:
        DataError: ``name`` is animated, too large, or its pixels are not 8-bit (16-bit, integer or float, NaN among
            them).
    """
    if image.width * image.height > MAX_PIXELS:
        raise DataError(
            f"{name} has {image.width}x{image.height} = {image.width * image.height:,} pixels, the limit is "
            f"{MAX_PIXELS:,}; scale it down or remove it."
        )
    # The second frame of an MPO file, as phones write it, is a preview or a depth map, not a later moment.
    frames = getattr(image, "n_frames", 1) if image.format != "MPO" else 1
    if frames > 1:
        raise DataError(
            f"{name} is animated or has several pages ({frames} frames); an image must be one picture, "
            "so extract the frames or remove the file."
        )
    if image.mode not in _GREY_MODES | _COLOR_MODES | _PALETTE_MODES:
        raise DataError(
            f"{name} has {_describe(image)} (mode '{image.mode}'); convert it to an image of 8 bits a channel first."
        )
    turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
    upright = ImageOps.exif_transpose(image) if turned else image
    converted = upright.convert(color if color != "auto" else _own_color(upright))
    if size is not None:
        converted = fit_image(converted, (size, size), fit)
    pixels = np.asarray(converted, dtype=np.uint8)
    return pixels[np.newaxis] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def stack(pictures: Sequence[ImageArray], *, where: str) -> ImageArray:
    """Join pictures uint8 [C, H, W] to one array uint8 [N, C, H, W]; grey ones get three channels if any has colour.

    Raises:
        DataError: there are no pictures, or they differ in height or width; ``where`` names them in the message.
    """
    if not pictures:
        raise DataError(f"{where} holds no images; every split needs at least one.")
    sizes: dict[tuple[int, int], int] = {}
    for picture in pictures:
        key = (picture.shape[1], picture.shape[2])
        sizes[key] = sizes.get(key, 0) + 1
    if len(sizes) > 1:
        common = sorted(sizes, key=lambda key: (-sizes[key], key))
        examples = ", ".join(f"{width}x{height} ({sizes[height, width]} images)" for height, width in common[:3])
        raise DataError(
            f"{where} holds images of {len(sizes)} different sizes (width x height): {examples}"
            f"{' …' if len(sizes) > 3 else ''}; set data.image_size to resize them all."
        )
    channels = max(picture.shape[0] for picture in pictures)
    result = np.empty((len(pictures), channels, *pictures[0].shape[1:]), dtype=np.uint8)
    for target, picture in zip(result, pictures, strict=True):
        target[:] = picture
    return result


def match_channels(images: Mapping[str, ImageArray]) -> dict[str, ImageArray]:
    """Make C of all splits uint8 [N, C, H, W] equal: grey ones get three channels if another split has colour."""
    channels = max(part.shape[1] for part in images.values())
    return {
        name: part if part.shape[1] == channels else np.repeat(part, channels, axis=1) for name, part in images.items()
    }


def from_grey(images: ImageArray, *, color: str, size: int | None, fit: ImageFit = "stretch") -> ImageArray:
    """Turn grey images uint8 [N, H, W] into uint8 [N, C, H, W] of ``color`` and ``size``."""
    if size is None or images.shape[1:] == (size, size):
        single = images[:, np.newaxis]
    else:
        single = np.stack(
            [to_array(Image.fromarray(image), color="L", size=size, name="image", fit=fit) for image in images]
        )
    return np.ascontiguousarray(np.repeat(single, 3, axis=1) if color == "RGB" else single)


def _own_color(image: Image.Image) -> str:
    if image.mode in _PALETTE_MODES:
        red, green, blue = image.convert("RGB").split()
        return "L" if red.tobytes() == green.tobytes() == blue.tobytes() else "RGB"
    return "L" if image.mode in _GREY_MODES else "RGB"


def _describe(image: Image.Image) -> str:
    if image.mode == "F":
        return "NaN pixels" if bool(np.isnan(np.asarray(image)).any()) else "float pixels"
    return "pixels of more than 8 bits"
