"""Passes over arrays that may be larger than memory: rows or columns, a block at a time.

Shapes: N rows, F columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NUMBERS = 16_000_000  # of a block: 64 MB in float32


def row_blocks(array: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of the rows of ``array`` [N, …], each of about 64 MB in float32 or one row."""
    rows = len(array)
    step = max(1, _NUMBERS * rows // max(1, array.size))
    return (slice(start, min(rows, start + step)) for start in range(0, rows, step))


def column_blocks(array: NDArray[Any], columns: int) -> Iterator[slice]:
    """Yield slices of the first ``columns`` columns of ``array`` [N, F], alike in width, each of about 64 MB."""
    count = min(columns, -(-len(array) * columns // _NUMBERS))
    edges = [columns * block // count for block in range(count + 1)] if count else []
    return (slice(start, stop) for start, stop in pairwise(edges))


def any_value(test: Callable[[NDArray[Any]], NDArray[np.bool_]], array: NDArray[Any]) -> bool:
    """Tell whether ``test`` holds for any number of ``array`` [N, …]."""
    return any(bool(test(array[block]).any()) for block in row_blocks(array))
