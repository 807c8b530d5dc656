"""Decoding of image files, within limits that are checked before any pixel is."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image, UnidentifiedImageError

from mnserve.errors import ImageError

MAX_PIXELS: Final = 64 * 1024 * 1024
"""Largest image that is decoded; a file of a few kilobytes can claim far more and fill the memory."""
SENT_FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""Formats that are decoded of images that callers send. Pillow reads MPO files, which phones write, as JPEG."""


def decoded(
    source: Path | BytesIO, path: Path | str, nbytes: int, formats: tuple[str, ...] | None = None
) -> Image.Image:
    """Decodes the first and only frame of a file or of bytes.

    Args:
        source: The file, or the bytes.
        path: Its name, for messages.
        nbytes: Its size.
        formats: Formats that are decoded; None for all that Pillow knows.

    Raises:
        ImageError: It is empty, not an image, damaged, animated or too large.
    """
    try:
        if nbytes == 0:
            raise ImageError(f"{path}: the file is empty (0 bytes); write or download it again")
        with warnings.catch_warnings():
            # Pillow warns about large images and odd metadata; our own limit is checked before any decoding.
            warnings.simplefilter("ignore")
            with Image.open(source, formats=formats) as image:
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
    except Exception as error:  # noqa: BLE001  decoders raise any kind of error on damaged files
        if "Ghostscript" in str(error):
            raise ImageError(
                f"{path}: PostScript files are read with Ghostscript, which is not on this machine; convert the file "
                "to PNG, or install ghostscript"
            ) from None
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise ImageError(f"{path}: the image is damaged or incomplete ({reason}); write or download it again") from None


def _check_header(image: Image.Image, path: Path | str) -> None:
    """Checks size and frames, which are known before the pixels are decoded."""
    if image.width * image.height > MAX_PIXELS:
        raise ImageError(
            f"{path}: the image has {image.width}x{image.height} = {image.width * image.height:,} pixels, "
            f"the limit is {MAX_PIXELS:,}; scale it down first"
        )
    # The second frame of an MPO file, which phones write, is a preview or a depth map, not a later moment.
    frames = 1 if image.format == "MPO" else int(getattr(image, "n_frames", 1))
    if frames > 1:
        raise ImageError(
            f"{path}: the file holds {frames} frames or pages, one is expected; save the one you mean as a "
            "file of its own"
        )
