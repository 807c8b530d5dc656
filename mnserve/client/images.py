"""Image files as arrays of 8-bit pixels, the same as in training.

Shapes: H height and W width in pixels, C channels (1 grey, 3 RGB).

The same file gives the same pixels here and in ``mntrain.data``, by these steps in this order: turn upright by the EXIF
orientation; drop an alpha channel or transparent colour; convert to grey (ITU-R 601 weights) or RGB; bring to another
size by a rule of :mod:`mnserve.client.image_fit`, where there is one. Training and prediction refuse the same files,
those with pixels of more than 8 bits among them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from mnserve.client.image_decoding import SENT_FORMATS, decoded
from mnserve.client.image_fit import ImageFit, fit_image
from mnserve.errors import ImageError

Pixels = NDArray[np.uint8]

# Pillow's modes of 8 bits and less, the same as in ``mntrain.data``.
_MODES = frozenset(["1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"])


@dataclass(frozen=True, kw_only=True)
class PixelSize:
    """Size of a model's images: ``channels`` 1 (grey) or 3 (RGB), ``height`` and ``width`` (None: any size)."""

    channels: int
    height: int | None
    width: int | None

    def __str__(self) -> str:
        height, width = (("any" if side is None else str(side)) for side in (self.height, self.width))
        return f"{width}x{height}"


def find_images(names: Sequence[str]) -> Iterator[Path | ImageError]:
    """Finds the files that ``names`` stand for, in order: a folder stands for its image files, sorted by name.

    Sub-folders are not searched, and hidden files in folders are left out. Files named one by one may have any ending.

    Yields:
        A path, or the error of a name that stands for no file; the names after it still follow.
    """
    for name in names:
        if not name:
            yield ImageError("'' is no file name; name an image file, or . for this folder")
            continue
        path = Path(name)
        if not os.path.isdir(name):  # unlike Path.is_dir, False for names that are too long
            yield path
            continue
        extensions = Image.registered_extensions()
        try:
            entries = sorted(path.iterdir())
        except OSError as error:
            yield ImageError(f"{name}: the folder cannot be read ({error.strerror}); check its permissions")
            continue
        images = [
            entry
            for entry in entries
            if entry.suffix.lower() in extensions and not entry.name.startswith(".") and entry.is_file()
        ]
        if not images:
            yield ImageError(
                f"{name}: the folder holds no image file (it has {len(entries)} entries; sub-folders are not "
                "searched); name the folder that holds the images, or the files themselves"
            )
        yield from images


def read_image(path: Path, size: PixelSize, *, fit: ImageFit | None = None) -> Pixels:
    """Reads one file into pixels uint8 [H, W, C], 0..255.

    Args:
        path: Image file of any format that Pillow decodes.
        size: Channels, height and width of the result.
        fit: Rule that brings an image of another size to ``size``; None refuses such an image.

    Raises:
        ImageError: The file is missing, empty, not an image, damaged, animated, too large, of another size, or has
            pixels without a meaning as 8-bit values. The message names the file, the value and the remedy.
    """
    return image_pixels(_open(path), path, size, fit=fit)


def decode_image(data: bytes, name: str, size: PixelSize, *, fit: ImageFit | None = None) -> Pixels:
    """Decodes the bytes of a file that somebody has sent, as :func:`read_image` does.

    Args:
        data: Content of a PNG, JPEG, WebP, GIF, BMP, TIFF or PPM file. Other formats are refused, since Pillow starts a
            program for some.
        name: Name of the image, for messages.
        size: Channels, height and width of the result.
        fit: Rule that brings an image of another size to ``size``; None refuses such an image.

    Raises:
        ImageError: As for :func:`read_image`.
    """
    return image_pixels(decoded(BytesIO(data), name, len(data), SENT_FORMATS), name, size, fit=fit)


def image_pixels(image: Image.Image, name: Path | str, size: PixelSize, *, fit: ImageFit | None = None) -> Pixels:
    """Brings a decoded image to pixels uint8 [H, W, C], 0..255, as :func:`read_image` does; it may be turned upright.

    Args:
        image: Any mode.
        name: File or number of the image, for messages.
        size: Channels, height and width of the result.
        fit: Rule that brings an image of another size to ``size``; None refuses such an image.

    Raises:
        ImageError: The image is of another size, or has pixels without a meaning as 8-bit values.
    """
    image = _upright(image, name)
    _check_depth(image, name)
    pixels = _to_channels(image, size.channels, name)
    height, width = size.height or pixels.height, size.width or pixels.width
    if (pixels.width, pixels.height) != (width, height):
        if fit is None:
            raise ImageError(
                f"{name}: the image is {pixels.width}x{pixels.height} pixels (width x height), the model "
                f"takes {size}; add --resize (in Python resize=True, over HTTP the parameter resize) to scale it, or "
                "give an image of that size"
            )
        pixels = fit_image(pixels, (width, height), fit)
    array: Pixels = np.asarray(pixels, np.uint8)
    return array.reshape(height, width, size.channels)


def _open(path: Path) -> Image.Image:
    """Decodes the first and only frame of a file."""
    if os.path.isdir(path):
        raise ImageError(f"{path}: this is a folder; name the files in it, or the folder on its own")
    if not os.path.exists(path):
        raise ImageError(f"{path}: no such file; check the name")
    if not os.path.isfile(path):  # opening a pipe would block until a writer opens it
        raise ImageError(f"{path}: this is a pipe, a socket or a device, not a file; copy the image to a file")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ImageError(f"{path}: the file cannot be read ({error.strerror}); check its permissions") from None
    return decoded(path, path, size)


def _upright(image: Image.Image, name: Path | str) -> Image.Image:
    try:
        ImageOps.exif_transpose(image, in_place=True)
    except Exception as error:  # noqa: BLE001  parsers of EXIF blocks raise any kind of error, too
        raise ImageError(
            f"{name}: the EXIF block is damaged ({error}), so the orientation is unknown; save the image "
            "again without metadata"
        ) from None
    return image


def _check_depth(image: Image.Image, name: Path | str) -> None:
    """Refuses pixels of more than 8 bits, as training does: which value is black, and which is white, would be a guess.

    A TIFF file may store white as zero, which Pillow turns around for 8 bits alone.
    """
    if image.mode in _MODES:
        return
    depth = "float pixels" if image.mode == "F" else "pixels of more than 8 bits"
    if image.mode not in ("F", "I") and not image.mode.startswith("I;"):
        depth = "pixels of an unknown kind"
    raise ImageError(
        f"{name}: the image has {depth} (mode '{image.mode}'), which training refuses, too; convert it to an image of "
        "8 bits a channel first"
    )


def _to_channels(image: Image.Image, channels: int, name: Path | str) -> Image.Image:
    """Converts to 8-bit grey (1) or RGB (3); transparency is dropped, as in training."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the transparency of a palette, which is dropped anyway
            return image.convert("L" if channels == 1 else "RGB")
    except ValueError:
        raise ImageError(
            f"{name}: pixels of mode {image.mode} cannot be converted; save the image as RGB or grey"
        ) from None
