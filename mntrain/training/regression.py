"""What a squared error of standardised values means in the target's own units.

Shapes: N rows.
"""

import math
from typing import Any

import numpy as np

from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.training.evaluation import Evaluation
from mntrain.training.metric import MSE


def regression_figures(found: Evaluation, rows: TableSet, scale: StandardizationConfig) -> dict[str, Any]:
    """Root mean squared error in the target's own units, and the share of the variance that is explained.

    Args:
        found: on ``rows``; nothing is added where it is no squared error.
        rows: targets in their own units.
        scale: how targets were standardised.

    Returns:
        ``rmse``, and ``r2`` (None where all targets are equal).
    """
    if found.metric != MSE.name:
        return {}
    variance = float(np.var(scale.targets(rows).targets.astype(np.float64)))
    return {
        "rmse": math.sqrt(found.score) * scale.target_std,
        "r2": 1 - found.score / variance if variance > 0 else None,
    }
