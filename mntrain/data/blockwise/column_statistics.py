"""Mean and deviation of columns of numbers, computed in float64 a block of columns at a time.

Shapes: N rows, F columns, M of them numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mntrain.data.blockwise.row_blocks import column_blocks
from mntrain.data.tables import Imputation, RowArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnStatistics:
    """Statistics of each column of numbers, float64 [M].

    Args:
        mean: after missing numbers have been filled in.
        std: deviation, likewise.
        fill: what stands for a missing number; None where none may be missing.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    fill: NDArray[np.float64] | None


def column_statistics(inputs: RowArray, numbers: int, imputation: Imputation | None) -> ColumnStatistics:
    """Compute the statistics of the first columns of ``inputs``; no copy of all of them is made.

    Args:
        inputs: [N, F], perhaps memory-mapped.
        numbers: M.
        imputation: what stands for a missing number; None where none is missing.
    """
    mean, std, fill = np.zeros(numbers), np.zeros(numbers), np.zeros(numbers)
    for block in column_blocks(inputs, numbers):
        values = inputs[:, block].astype(np.float64)
        if imputation is not None:
            fill[block] = (np.nanmedian if imputation == "median" else np.nanmean)(values, axis=0)
            values = np.where(np.isnan(values), fill[block], values)
        mean[block], std[block] = values.mean(axis=0), values.std(axis=0)
    return ColumnStatistics(mean=mean, std=std, fill=fill if imputation is not None and numbers else None)
