"""Runs that estimate several targets at once: figures of each, artifact, evaluation and report.

Shapes: N rows, T 2 targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.models.base import Estimate
from mntrain.training.evaluation import MSE, EvaluationPlan, evaluate
from mntrain.training.regression import regression_figures


class Stub(nn.Module):
    """Answers 0 for the first target and the row for the second, and the row for both before adaptation."""

    def forward(self, rows: Tensor) -> Estimate:
        return Estimate(values=torch.cat([0 * rows, rows], dim=1), unadapted_values=rows.expand(-1, 2))


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_figures_of_targets_do_not_depend_on_the_batch_size(batch_size: int) -> None:
    inputs = np.arange(5, dtype=np.float32)[:, None]
    targets = np.concatenate([inputs, inputs], axis=1)
    rows = TableSet(inputs=inputs, targets=targets)
    preprocessing = nn.BatchNorm1d(1, eps=0.0).eval()  # it has buffers, and changes nothing
    found = evaluate(Stub(), preprocessing, rows, EvaluationPlan(metric=MSE, batch_size=batch_size))
    assert found.target_scores == (pytest.approx(6.0), 0.0)
    assert found.unadapted_target_scores == (0.0, 0.0)
    assert (found.score, found.loss, found.unadapted_score) == (pytest.approx(3.0), pytest.approx(3.0), 0.0)
    scale = StandardizationConfig(mean=(0.0,), std=(1.0,), target_mean=(0.0, 0.0), target_std=(10.0, 2.0))
    unscaled = TableSet(inputs=inputs, targets=targets * np.array([10, 2], np.float32))
    figures = regression_figures(found, unscaled, scale, ("p", "q"))
    wrong = {"mse": 6.0, "unadapted_mse": 0.0, "rmse": 10 * np.sqrt(6), "r2": -2.0}
    assert figures["targets"]["p"] == pytest.approx(wrong)
    assert figures["targets"]["q"] == {"mse": 0.0, "unadapted_mse": 0.0, "rmse": 0.0, "r2": 1.0}
    assert figures["r2"] == pytest.approx(-0.5)


def test_a_target_of_one_value_has_no_share_of_its_variance() -> None:
    rows = TableSet(inputs=np.zeros((3, 1), np.float32), targets=np.array([[1, 5], [2, 5], [3, 5]], np.float32))
    scale = StandardizationConfig.from_rows(rows)
    found = evaluate(Stub(), nn.BatchNorm1d(1).eval(), scale.targets(rows), EvaluationPlan(metric=MSE, batch_size=2))
    figures: dict[str, Any] = regression_figures(found, rows, scale, ("p", "q"))
    assert figures["targets"]["p"]["r2"] == pytest.approx(0.0, abs=1e-6)
    assert figures["targets"]["q"]["r2"] is None
    assert figures["r2"] is None
