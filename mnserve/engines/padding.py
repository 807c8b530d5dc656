"""Padding of batches with copies of the last row.

A copy of a row is always valid input for the model; zeros may not be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pad(rows: Array, whole: Array) -> Array:
    """Writes rows [B, ...] into ``whole`` [N, ...], followed by copies of the last row; zeros for an empty batch.

    Returns:
        ``whole``.
    """
    count = len(rows)
    whole[:count], whole[count:] = rows, rows[-1] if count else 0
    return whole
