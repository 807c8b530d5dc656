"""Decode a column of encoded images with a thread for each core.

Shapes: N images, C channels (1 grey, 3 RGB), H height, W width in pixels.
"""

from __future__ import annotations

import io
import os
import struct
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mntrain.data.config import ImageFit
from mntrain.data.hugging_face import datasets
from mntrain.data.images import ImageArray
from mntrain.data.reading.pixels import stack, to_array
from mntrain.errors import DataError
from mntrain.regular_files import regular
from mntrain.terminal_text import printable

_BLOCK = 256
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


def decode_column(table: datasets.Dataset, column: str, options: DecodeOptions, *, where: str) -> ImageArray:
    """Decode all images of ``column`` to uint8 [N, C, H, W], with a progress bar on a terminal.

    Pillow decodes outside the interpreter lock, so threads suffice.

    Raises:
        DataError: an image is missing, corrupt, animated, or of another size than the rest.
    """
    encoded = table.select_columns([column]).cast_column(column, datasets.Image(decode=False)).with_format("arrow")
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

    def decode_block(start: int) -> list[ImageArray]:
        rows = encoded[start : start + _BLOCK].column(column).to_pylist()
        return [
            _decode(row, options, name=f"{where}: image {start + offset}{_path_hint(row)}")
            for offset, row in enumerate(rows)
        ]

    pictures: list[ImageArray] = []
    workers = ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)), thread_name_prefix="decode")
    try:
        with bar, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")
            task = bar.add_task(printable(f"Decoding {where}"), total=len(encoded))
            for block in workers.map(decode_block, range(0, len(encoded), _BLOCK)):
                pictures.extend(block)
                bar.advance(task, len(block))
    finally:
        workers.shutdown(cancel_futures=True)
    return stack(pictures, where=where)


def _decode(row: Mapping[str, Any] | None, options: DecodeOptions, *, name: str) -> ImageArray:
    try:
        with _open(row, name) as image:
            return to_array(image, color=options.color, size=options.size, name=name, fit=options.fit)
    except _DAMAGED as error:
        raise DataError(f"{name} cannot be decoded ({_reason(error)}); replace or remove it.") from error


def _open(row: Mapping[str, Any] | None, name: str) -> Image.Image:
    if row is None or (row["bytes"] is None and row["path"] is None):
        raise DataError(f"{name} is missing (None); remove the row or supply the image.")
    if row["bytes"] is not None:
        return Image.open(io.BytesIO(row["bytes"]))
    if regular(Path(row["path"])).is_file():
        return Image.open(row["path"])
    # A path inside an archive or on the hub, which `datasets` knows how to open.
    opened: Image.Image = datasets.Image().decode_example(dict(row))
    return opened


def _path_hint(row: Mapping[str, Any] | None) -> str:
    return f" ('{row['path']}')" if row is not None and row["path"] else ""


def _reason(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not an image in a known format"
    return str(error) or type(error).__name__
