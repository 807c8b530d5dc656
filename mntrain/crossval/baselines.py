"""Baselines without a network on the rows of a fold.

Shapes: N rows, F features, T targets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mntrain.baselines.boosting import boost
from mntrain.baselines.nearest import nearest
from mntrain.baselines.rows import BaselineAnswers, KnownRows
from mntrain.crossval.methods import BOOSTING, KNN
from mntrain.data.standardization import StandardizationConfig
from mntrain.data.tables import TableData, TableSet


def knn(data: TableData) -> dict[str, Any]:
    """Estimate the test rows by the mean of their k nearest training rows, encoded as for a network.

    Returns:
        The chosen number of ``neighbors``, and ``mse`` of standardised test targets; of several targets their mean, and
        ``targets``: name → its own ``mse``.
    """
    scale = StandardizationConfig.from_data(data)
    train, validation, test = (_encoded(part, scale) for part in (data.train, data.validation, data.test))
    return _figures(nearest(train, validation, test.inputs), test, data.target_names)


def boosting(data: TableData) -> dict[str, Any]:
    """Estimate the test rows by boosted trees on the columns as they are.

    Returns:
        The chosen number of ``rounds`` (a list for several targets), and errors as :func:`knn`.
    """
    scale = StandardizationConfig.from_data(data)
    train, validation, test = (_as_they_are(part, scale) for part in (data.train, data.validation, data.test))
    found = boost(train, validation, test.inputs, categories=len(data.categories))
    return _figures(found, test, data.target_names)


BASELINES: Mapping[str, Callable[[TableData], dict[str, Any]]] = MappingProxyType({KNN: knn, BOOSTING: boosting})


def _encoded(rows: TableSet, scale: StandardizationConfig) -> KnownRows:
    return KnownRows(inputs=scale.inputs(rows.inputs), targets=scale.targets(rows).targets)


def _as_they_are(rows: TableSet, scale: StandardizationConfig) -> KnownRows:
    return KnownRows(inputs=rows.inputs, targets=scale.targets(rows).targets)


def _figures(found: BaselineAnswers, test: KnownRows, names: tuple[str, ...]) -> dict[str, Any]:
    errors = (found.answers - test.targets) ** 2
    figures = {**found.chosen, "mse": float(np.mean(errors))}
    if len(names) > 1:
        figures["targets"] = {name: {"mse": float(np.mean(one))} for name, one in zip(names, errors.T, strict=True)}
    return figures
