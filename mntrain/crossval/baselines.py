"""Baselines without a network on the rows of a fold.

Shapes: N rows, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mntrain.baselines.boosting import boost
from mntrain.baselines.nearest import nearest
from mntrain.baselines.rows import BaselineAnswers, KnownRows
from mntrain.crossval.plan import BOOSTING, KNN
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableData, TableSet


def knn(data: TableData) -> dict[str, Any]:
    """Estimate the test rows by the mean of their k nearest training rows, all standardised.

    Returns:
        The chosen number of ``neighbors``, and ``mse`` of standardised test targets.
    """
    scale = StandardizationConfig.from_rows(data.train)
    train, validation, test = (_standardised(part, scale) for part in (data.train, data.validation, data.test))
    return _figures(nearest(train, validation, test.inputs), test)


def boosting(data: TableData) -> dict[str, Any]:
    """Estimate the test rows by boosted trees on the columns as they are.

    Returns:
        The chosen number of ``rounds``, and ``mse`` of standardised test targets.
    """
    scale = StandardizationConfig.from_rows(data.train)
    train, validation, test = (_as_they_are(part, scale) for part in (data.train, data.validation, data.test))
    return _figures(boost(train, validation, test.inputs), test)


BASELINES: Mapping[str, Callable[[TableData], dict[str, Any]]] = MappingProxyType({KNN: knn, BOOSTING: boosting})


def _standardised(rows: TableSet, scale: StandardizationConfig) -> KnownRows:
    return KnownRows(inputs=scale.inputs(rows.inputs), targets=scale.targets(rows).targets)


def _as_they_are(rows: TableSet, scale: StandardizationConfig) -> KnownRows:
    return KnownRows(inputs=rows.inputs, targets=scale.targets(rows).targets)


def _figures(found: BaselineAnswers, test: KnownRows) -> dict[str, Any]:
    return {**found.chosen, "mse": float(np.mean((found.answers - test.targets) ** 2))}
