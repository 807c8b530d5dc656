"""Images and rows as Python programs hold them, brought to what a model takes.

Shapes: B images or rows, C channels (1 grey, 3 RGB), H height and W width in pixels, F columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mnserve.client.image_fit import ImageFit
from mnserve.client.images import Pixels, PixelSize, image_pixels, read_image
from mnserve.errors import ImageError, RowError
from mnserve.predicting.row_file import RowFile, TableRow
from mnserve.predicting.row_values import RowReader, RowValues
from mnserve.repository.row_layout import TableLayout
from mnserve.text.names import listed

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
    if _is_array(images):
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


def read_rows(rows: Any, layout: TableLayout) -> tuple[list[RowValues], RowReader]:
    """Reads rows for a model.

    Args:
        rows: Array of numbers [B, F] in the order of the model's columns, for a model without categories; or a sequence
            of mappings from column to value, None for a missing one.
        layout: Columns of the model.

    Returns:
        Values of every row, and the reader, which knows what categories were unknown.

    Raises:
        RowError: There is no row, or one cannot be used; the message has its number, from 1.
    """
    columns = layout.columns
    reader = RowReader(
        layout,
        RowFile(source=Path("rows"), header=columns, columns=columns, separator=",", rows=iter(())),
        decimal=".",
    )
    if _is_array(rows):
        rows = _mappings(np.asarray(rows), layout)
    if isinstance(rows, Mapping) or not len(rows):
        raise RowError("there are no rows to predict; give an array [B, F], or a list of mappings from column to value")
    values = []
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise RowError(f"row {number} is {type(row).__name__}; give a mapping from column to value")
        missing = [name for name in columns if name not in row]
        if missing:
            raise RowError(
                f"row {number} has no {listed(list(map(repr, missing)))}; the model needs "
                f"{listed(list(map(repr, columns)))}"
            )
        try:
            values.append(reader.read(TableRow(number=number, cells=tuple(_text(row[name]) for name in columns))))
        except RowError as error:
            raise RowError(f"row {number}: {error}") from error
    return values, reader


def _is_array(value: Any) -> bool:
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


def _mappings(array: NDArray[Any], layout: TableLayout) -> Sequence[Mapping[str, Any]]:
    if layout.categories:
        raise RowError(
            f"the model takes categories ({listed(list(layout.categories))}), which an array of numbers does not name; "
            "give a list of mappings from column to value"
        )
    if array.ndim != 2 or array.shape[1] != len(layout.numbers) or array.dtype.kind not in "biuf":
        raise RowError(
            f"the rows are an array of {array.dtype} {list(array.shape)}; the model takes numbers of shape "
            f"[B, {len(layout.numbers)}]"
        )
    return [dict(zip(layout.numbers, row, strict=True)) for row in array.tolist()]


def _text(value: Any) -> str:
    return "" if value is None else str(value)
