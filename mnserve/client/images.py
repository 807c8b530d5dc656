"""Image files as arrays of 8-bit pixels, the way training saw them.

Shapes: H height and W width in pixels, C channels (1 grey, 3 RGB).

The same file gives the same pixels here and in ``mntrain.data``, in this order: turned upright as its EXIF
orientation says; an alpha channel or transparent colour dropped; converted to grey (ITU-R 601 weights) or RGB as
asked; resized (bilinear with antialiasing, aspect ratio not kept) only where that is asked for. Beyond that, 16-bit
pixels are scaled to 8 bits and float pixels are taken as 0..1. What cannot be converted without a guess is refused.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from mnserve.errors import ImageError

Pixels = NDArray[np.uint8]

MAX_PIXELS = 64 * 1024 * 1024
"""Largest image that is decoded; a file of a few kilobytes can claim far more and fill the memory."""


@dataclass(frozen=True, kw_only=True)
class PixelSize:
    """What a model wants: ``channels`` 1 (grey) or 3 (RGB), ``height`` and ``width`` (None: any will do)."""

    channels: int
    height: int | None
    width: int | None

    def __str__(self) -> str:
        height, width = (("any" if side is None else str(side)) for side in (self.height, self.width))
        return f"{width}x{height}"


def find_images(names: Sequence[str]) -> Iterator[Path | ImageError]:
    """The files that ``names`` mean, in order: a folder stands for the image files in it, sorted by name.

    Folders are not searched further down, and hidden files in them are left out. Files named one by one are
    not judged by their ending.

    Yields:
        A path, or the error of a name that stands for nothing; the others still come.
    """
    for name in names:
        if not name:
            yield ImageError("'' is no file name; name an image file, or . for this folder")
            continue
        path = Path(name)
        if not os.path.isdir(name):  # unlike Path.is_dir, False for names that are too long
            yield path
            continue
        known = Image.registered_extensions()
        try:
            entries = sorted(path.iterdir())
        except OSError as error:
            yield ImageError(f"{name}: the folder cannot be read ({error.strerror}); check its permissions")
            continue
        found = [
            entry
            for entry in entries
            if entry.suffix.lower() in known and not entry.name.startswith(".") and entry.is_file()
        ]
        if not found:
            yield ImageError(
                f"{name}: the folder holds no image file (it has {len(entries)} entries; sub-folders are not "
                "searched); name the folder that holds the images, or the files themselves"
            )
        yield from found


def read_image(path: Path, size: PixelSize, *, resize: bool = False) -> Pixels:
    """Reads one file into pixels uint8 [H, W, C], 0..255.

    Args:
        path: image file of any format that Pillow decodes.
        size: channels, height and width to deliver.
        resize: bring an image of another size to ``size`` instead of refusing it.

    Raises:
        ImageError: the file is missing, empty, not an image, damaged, animated, too large, of another size,
            or has pixels that have no meaning as 8-bit values. The message names the file, the value and the
            remedy.
    """
    image = _upright(_open(path), path)
    pixels = _to_channels(_to_eight_bits(image, path), size.channels, path)
    height, width = size.height or pixels.height, size.width or pixels.width
    if (pixels.width, pixels.height) != (width, height):
        if not resize:
            raise ImageError(
                f"{path}: the image is {pixels.width}x{pixels.height} pixels (width x height), the model "
                f"takes {size}; add --resize to scale it, or give an image of that size"
            )
        pixels = pixels.resize((width, height), Image.Resampling.BILINEAR)
    array: Pixels = np.asarray(pixels, np.uint8)
    return array.reshape(height, width, size.channels)


def _open(path: Path) -> Image.Image:
    """The decoded first and only frame of a file."""
    if os.path.isdir(path):
        raise ImageError(f"{path}: this is a folder; name the files in it, or the folder on its own")
    if not os.path.exists(path):
        raise ImageError(f"{path}: no such file; check the name")
    try:
        if path.stat().st_size == 0:
            raise ImageError(f"{path}: the file is empty (0 bytes); write or download it again")
        with warnings.catch_warnings():
            # Pillow warns about large images and odd metadata; our own limit is checked before any decoding.
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                _check_header(image, path)
                image.load()
                return image
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError(
            f"{path}: not an image in a format this machine reads; convert it, for instance to PNG"
        ) from None
    except Image.DecompressionBombError:
        raise ImageError(
            f"{path}: the image claims more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels, the limit is "
            f"{MAX_PIXELS:,}; scale it down first"
        ) from None
    except PermissionError:
        raise ImageError(f"{path}: the file may not be read; check its permissions") from None
    except Exception as error:  # noqa: BLE001  decoders fail with whatever their parsing ran into
        if "Ghostscript" in str(error):
            raise ImageError(
                f"{path}: PostScript files are read with Ghostscript, which is not on this machine; convert the file "
                "to PNG, or install ghostscript"
            ) from None
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise ImageError(f"{path}: the image is damaged or incomplete ({reason}); write or download it again") from None


def _check_header(image: Image.Image, path: Path) -> None:
    """Refuses by size and frames, which are known before anything is decoded."""
    if image.width * image.height > MAX_PIXELS:
        raise ImageError(
            f"{path}: the image has {image.width}x{image.height} = {image.width * image.height:,} pixels, "
            f"the limit is {MAX_PIXELS:,}; scale it down first"
        )
    # The second frame of an MPO file, as phones write it, is a preview or a depth map, not a later moment.
    frames = 1 if image.format == "MPO" else int(getattr(image, "n_frames", 1))
    if frames > 1:
        raise ImageError(
            f"{path}: the file holds {frames} frames or pages, one is expected; save the one you mean as a "
            "file of its own"
        )


def _upright(image: Image.Image, path: Path) -> Image.Image:
    try:
        ImageOps.exif_transpose(image, in_place=True)
    except Exception as error:  # noqa: BLE001  as above: EXIF blocks are parsed by the same kind of code
        raise ImageError(
            f"{path}: the EXIF block is damaged ({error}), so the orientation is unknown; save the image "
            "again without metadata"
        ) from None
    return image


def _to_eight_bits(image: Image.Image, path: Path) -> Image.Image:
    """Deep pixels as 8-bit grey; other modes unchanged."""
    if image.mode.startswith("I;16"):
        return _grey_from_sixteen_bits(np.asarray(image).astype(np.uint16))
    if image.mode == "I":
        values = np.asarray(image)
        if image.format == "PNG" or image.info.get("bits") == 16:  # 16-bit files, widened by older versions of Pillow
            return _grey_from_sixteen_bits(values.astype(np.uint16))
        raise ImageError(
            f"{path}: the pixels are 32-bit integers ({values.min()} to {values.max()}), whose white is "
            "unknown; save the image with 8 or 16 bits"
        )
    if image.mode == "F":
        return _grey_from_floats(np.asarray(image), path)
    return image


def _grey_from_sixteen_bits(values: NDArray[np.uint16]) -> Image.Image:
    """65535 becomes 255, rounded to the nearest."""
    return Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))


def _grey_from_floats(values: NDArray[np.float32], path: Path) -> Image.Image:
    """0..1 becomes 0..255; anything else has no agreed meaning."""
    broken = values.size - int(np.isfinite(values).sum())
    if broken:
        raise ImageError(
            f"{path}: {broken:,} of {values.size:,} pixels are NaN or infinite; repair or fill them, a "
            "prediction would be meaningless"
        )
    low, high = float(values.min()), float(values.max())
    if low < 0.0 or high > 1.0:
        raise ImageError(
            f"{path}: float pixels run from {low:g} to {high:g}, but must lie in 0..1; scale them, or save "
            "the image with 8 or 16 bits"
        )
    return Image.fromarray(np.rint(values * 255.0).astype(np.uint8))


def _to_channels(image: Image.Image, channels: int, path: Path) -> Image.Image:
    """8-bit grey (1) or RGB (3); transparency is dropped, as training does it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a palette's transparency, which is dropped anyway
            return image.convert("L" if channels == 1 else "RGB")
    except ValueError:
        raise ImageError(
            f"{path}: pixels of mode {image.mode} cannot be converted; save the image as RGB or grey"
        ) from None
