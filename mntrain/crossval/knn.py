"""Baseline without a network: the mean of the nearest training rows.

Shapes: N rows, F features.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableData, TableSet

_CANDIDATES = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)


@dataclass(frozen=True, kw_only=True)
class KnnResult:
    """Chosen number of neighbors and error on one fold.

    Args:
        neighbors: k with the smallest error on the validation rows.
        mse: mean squared error of standardised targets on the test rows.
    """

    neighbors: int
    mse: float


def knn(data: TableData) -> KnnResult:
    """Estimate the test rows by the mean of their k nearest training rows, all standardised."""
    scale = StandardizationConfig.from_data(data)
    train, validation, test = (_standardised(part, scale) for part in (data.train, data.validation, data.test))
    candidates = [count for count in _CANDIDATES if count <= len(data.train)]
    model = KNeighborsRegressor(n_neighbors=candidates[-1]).fit(train.inputs, train.targets)
    # Neighbors come sorted by distance, so one search serves every k.
    nearest_targets = train.targets[model.kneighbors(validation.inputs, return_distance=False)].astype(np.float64)
    errors = [
        float(np.mean((nearest_targets[:, :count].mean(axis=1) - validation.targets) ** 2)) for count in candidates
    ]
    chosen = candidates[int(np.argmin(errors))]
    estimates = model.set_params(n_neighbors=chosen).predict(test.inputs)
    return KnnResult(neighbors=chosen, mse=float(np.mean((estimates.astype(np.float64) - test.targets) ** 2)))


def _standardised(rows: TableSet, scale: StandardizationConfig) -> TableSet:
    return TableSet(inputs=scale.inputs(rows.inputs), targets=scale.targets(rows).targets)
