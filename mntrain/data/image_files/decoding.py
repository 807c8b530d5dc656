"""Decode a column of encoded images with a thread for each core.

Shapes: N images, C channels (1 grey, 3 RGB), H height, W width in pixels.
"""

from __future__ import annotations

import io
import os
import struct
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from PIL import ExifTags, Image, UnidentifiedImageError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mntrain.data.config import ImageFit
from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.rows import EncodedImage, ImageRows, count
from mntrain.data.images import ImageArray
from mntrain.data.reading.pixel_account import PixelCensus
from mntrain.data.reading.pixels import stack, to_array
from mntrain.errors import DataError
from mntrain.regular_files import regular
from mntrain.terminal_text import printable

_ON_ITS_SIDE = (5, 6, 7, 8)
# Errors of Pillow on damaged files.
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError)


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """Colour and size of decoded images, and the rule that brings them to the size."""

    color: str
    """``L``, ``RGB``, or ``auto`` for RGB if any image has colour."""
    size: int | None
    """Pixels square, or None to keep the size."""
    fit: ImageFit = "stretch"
    """How ``size`` is reached."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Decoded:
    """One image, uint8 [C, H, W], and its size (width, height) and colour mode as found."""

    pixels: ImageArray
    size: tuple[int, int]
    mode: str


def decode_rows(
    parts: Sequence[ImageRows], column: str, options: DecodeOptions, *, census: PixelCensus, where: str
) -> ImageArray:
    """Decode all images of ``column`` to uint8 [N, C, H, W], with a progress bar on a terminal.

    Pillow decodes outside the interpreter lock, so threads suffice. Encoded images are read as they are decoded.

    Raises:
        DataError: an image is missing, corrupt, animated, or of another size than the rest.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )

    def decode_block(block: _Block) -> list[_Decoded]:
        return [
            _decode(image, options, name=f"{where}: image {block.start + offset}{_hint(image)}", local=block.local)
            for offset, image in enumerate(block.images)
        ]

    pictures: list[ImageArray] = []
    cores = len(os.sched_getaffinity(0))
    workers = ThreadPoolExecutor(max_workers=cores, thread_name_prefix="decode")
    try:
        with bar, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")
            task = bar.add_task(printable(f"Decoding {where}"), total=count(parts))
            waiting: deque[Future[list[_Decoded]]] = deque()
            blocks = _blocks(parts, column)
            # No more blocks are read than the workers can start on, so that encoded images do not pile up in memory.
            while True:
                waiting.extend(
                    workers.submit(decode_block, block) for block in islice(blocks, 2 * cores - len(waiting))
                )
                if not waiting:
                    break
                decoded = waiting.popleft().result()
                for picture in decoded:
                    pictures.append(picture.pixels)
                    census.add(*picture.size, picture.mode)
                bar.advance(task, len(decoded))
    finally:
        workers.shutdown(cancel_futures=True)
    return stack(pictures, where=where)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Block:
    """Encoded images that follow one another, the first of which is number ``start``."""

    start: int
    images: Sequence[EncodedImage | None]
    local: bool


def _blocks(parts: Sequence[ImageRows], column: str) -> Iterator[_Block]:
    start = 0
    for part in parts:
        for images in part.images(column):
            yield _Block(start=start, images=images, local=part.local)
            start += len(images)


def _decode(image: EncodedImage | None, options: DecodeOptions, *, name: str, local: bool = True) -> _Decoded:
    try:
        with _open(image, name, local) as opened:
            size, mode = opened.size, opened.mode
            turned = opened.getexif().get(ExifTags.Base.Orientation, 1) in _ON_ITS_SIDE
            pixels = to_array(opened, color=options.color, size=options.size, name=name, fit=options.fit)
    except _DAMAGED as error:
        raise DataError(f"{name} cannot be decoded ({_reason(error)}); replace or remove it.") from error
    return _Decoded(pixels=pixels, size=(size[1], size[0]) if turned else size, mode=mode)


def _open(image: EncodedImage | None, name: str, local: bool) -> Image.Image:
    if image is None or (image["bytes"] is None and image["path"] is None):
        raise DataError(f"{name} is missing (None); remove the row or supply the image.")
    if image["bytes"] is not None:
        return Image.open(io.BytesIO(image["bytes"]))
    if local or regular(Path(image["path"])).is_file():
        return Image.open(regular(Path(image["path"])))
    # A path inside an archive or on the hub, which `datasets` knows how to open.
    opened: Image.Image = datasets.Image().decode_example(dict(image))
    return opened


def _hint(image: EncodedImage | None) -> str:
    return f" ('{image['path']}')" if image is not None and image["path"] else ""


def _reason(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image in a known format"
    return str(error) or type(error).__name__
