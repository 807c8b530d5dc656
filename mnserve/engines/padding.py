"""Batches that are filled up: the rows, and behind them copies of the last one.

A copy is a row that the model takes, whatever it does with rows; zeros may be none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pad(rows: Array, whole: Array) -> Array:
    """Writes rows [B, ...] into ``whole`` [N, ...], and copies of the last of them behind; zeros where there are none.

    Returns:
        ``whole``.
    """
    count = len(rows)
    whole[:count], whole[count:] = rows, rows[-1] if count else 0
    return whole
