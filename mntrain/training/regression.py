"""Figures of regression in the targets' own units.

Shapes: N rows, T targets.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.training.evaluation import MSE, Evaluation


def regression_figures(
    evaluation: Evaluation, rows: TableSet, scale: StandardizationConfig, names: Sequence[str]
) -> dict[str, Any]:
    """Compute root mean squared errors in the targets' own units, and shares of the variance that are explained.

    Args:
        evaluation: on ``rows``; without figures where its metric is no squared error.
        rows: with targets in their own units.
        scale: standardisation of the targets.
        names: of the T targets.

    Returns:
        ``rmse`` and ``r2`` of one target. Of several ``r2``, the mean of theirs, and ``targets``: name → ``mse``,
        ``unadapted_mse`` (None where the family does not adapt), ``rmse`` and ``r2``. An ``r2`` is None where all
        values of a target are equal.
    """
    if evaluation.metric != MSE.name:
        return {}
    targets = scale.targets(rows).targets.astype(np.float64)
    deviations = np.atleast_1d(scale.target_std).tolist()
    if targets.ndim == 1:
        return _figures(evaluation.score, targets, deviations[0])
    unadapted = evaluation.unadapted_target_scores or (None,) * len(names)
    of_targets = {
        name: {"mse": mse, "unadapted_mse": before} | _figures(mse, values, deviation)
        for name, mse, before, values, deviation in zip(
            names, evaluation.target_scores, unadapted, targets.T, deviations, strict=True
        )
    }
    shares = [figures["r2"] for figures in of_targets.values()]
    return {"r2": None if None in shares else float(np.mean(shares)), "targets": of_targets}


def describe_targets(figures: Mapping[str, Any]) -> list[str]:
    """Put the errors of each of several targets into words; nothing for one target, or for classes.

    Args:
        figures: of a split, as ``metrics.json`` holds them.
    """
    return [
        f"{name}: mse {of_target['mse']:.4f}, {of_target['rmse']:.4g} in its own units (rmse)"
        for name, of_target in figures.get("targets", {}).items()
    ]


def _figures(mse: float, values: np.ndarray[Any, Any], deviation: float) -> dict[str, Any]:
    """Compute ``rmse`` and ``r2`` of one target with standardised ``values`` [N]."""
    variance = float(np.var(values))
    return {"rmse": math.sqrt(mse) * deviation, "r2": 1 - mse / variance if variance > 0 else None}
