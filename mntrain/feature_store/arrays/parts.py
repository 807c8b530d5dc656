"""Foreign features as they lie in files: read a block at a time.

Shapes: N rows of a part, B rows of a block, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.errors import DataError

BLOCK_BYTES = 16 * 1024 * 1024
"""Bytes of features that are read at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayPart:
    """Rows of one file, or of one pair of arrays.

    Args:
        where: the file and array, for messages.
        width: d.
        labels: whole numbers or names, [N].
        words: split of each row as the file says it, [N]; None where it does not.
        blocks: yields features [B, d] of any real type, in order.
        columns: of a table, those that hold the features: one for each of them, or one of lists; else empty.
        excluded: column of a table that was left out → why.
    """

    where: str
    width: int
    labels: NDArray[Any]
    words: NDArray[Any] | None
    blocks: Callable[[], Iterator[NDArray[Any]]]
    columns: tuple[str, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ArraySet:
    """Everything that is at a place.

    Args:
        parts: ``all`` alone, or ``train`` and perhaps ``validation`` and ``test``.
        weight: of a classifier, [C, d].
        bias: of it, [C].
        label_names: of the classes, [C].
    """

    parts: Mapping[str, ArrayPart]
    weight: NDArray[Any] | None = None
    bias: NDArray[Any] | None = None
    label_names: tuple[str, ...] | None = None


def check_pair(where: str, shape: tuple[int, ...], labels: NDArray[Any], words: NDArray[Any] | None) -> None:
    """Check that features, labels and words of splits are of the same rows.

    Raises:
        DataError: they are not, or there are no rows.
    """
    if len(shape) != 2 or min(shape, default=0) < 1:
        raise DataError(f"{where} has features of shape {list(shape)}; they must be [rows, features], and not empty.")
    for name, values in (("labels", labels), ("split", words)):
        if values is not None and values.shape != shape[:1]:
            raise DataError(
                f"{where} has {shape[0]} rows of features, but {name} of shape {list(values.shape)}; give one for each "
                "row."
            )
    if labels.dtype.kind not in "iuUSO":
        raise DataError(
            f"{where} has labels of {labels.dtype}; they must be whole numbers from 0 on, or names of classes."
        )


def as_text(value: object, where: str) -> str:
    """Read a name, which numpy may hold as bytes.

    Raises:
        DataError: the bytes are no UTF-8.
    """
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where} holds the name {value!r}, which is no UTF-8; write names as text.") from error


def rows_of_a_block(width: int, itemsize: int) -> int:
    """Rows that are read at a time."""
    return max(1, BLOCK_BYTES // max(1, width * itemsize))


def as_float32(block: NDArray[Any], where: str, start: int) -> NDArray[np.float32]:
    """Turn a block into float32, and check it.

    Raises:
        DataError: a value is not finite; the message names the row.
    """
    with np.errstate(over="ignore"):
        rows: NDArray[np.float32] = np.ascontiguousarray(block, dtype=np.float32)
    finite = np.isfinite(rows).all(1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise DataError(
            f"{where}: row {start + row} holds {rows[row][~np.isfinite(rows[row])][0]}, and features must be finite "
            "float32 numbers; correct or remove that row."
        )
    return rows
