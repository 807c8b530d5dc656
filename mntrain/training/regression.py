"""Figures of regression in the target's own units.

Shapes: N rows.
"""

import math
from typing import Any

import numpy as np

from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.training.evaluation import MSE, Evaluation


def regression_figures(evaluation: Evaluation, rows: TableSet, scale: StandardizationConfig) -> dict[str, Any]:
    """Compute the root mean squared error in the target's own units, and the share of the variance that is explained.

    Args:
        evaluation: on ``rows``; without figures where its metric is no squared error.
        rows: with targets in their own units.
        scale: standardisation of the targets.

    Returns:
        ``rmse``, and ``r2`` (None where all targets are equal).
    """
    if evaluation.metric != MSE.name:
        return {}
    assert isinstance(scale.target_std, float)
    variance = float(np.var(scale.targets(rows).targets.astype(np.float64)))
    return {
        "rmse": math.sqrt(evaluation.score) * scale.target_std,
        "r2": 1 - evaluation.score / variance if variance > 0 else None,
    }
