"""Gradient boosting of histograms of the columns as they are: missing values and categories are its own affair.

Shapes: N rows, F columns, T target values, C classes.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from mntrain.baselines.rows import BaselineAnswers, KnownRows

MOST_ROUNDS = 500
_MOST_CODE = 254  # of scikit-learn, in a column that it takes as categories


def boost(
    train: KnownRows, validation: KnownRows, queries: NDArray[np.float32], *, categories: int = 0
) -> BaselineAnswers:
    """Answer ``queries`` by boosted trees, with a model for each target value.

    All settings are scikit-learn's own, but for the number of rounds: validation rows choose it from 1 to
    :data:`MOST_ROUNDS`. The seed is 0.

    Args:
        train: rows to learn from, in their own units; NaN is a missing value.
        validation: rows that choose the number of rounds, by squared error or by the share of right classes.
        queries: float32 [N, F].
        categories: this many columns, the last ones, hold codes of categories; -1 is a missing or unknown one.
    """
    settings: dict[str, Any] = {"max_iter": MOST_ROUNDS, "early_stopping": False, "random_state": 0}
    settings["categorical_features"] = _category_columns(train.inputs, categories)
    if train.classes:
        if len(np.unique(train.targets)) == 1:
            return BaselineAnswers(answers=np.full(len(queries), train.targets[0]), chosen={"rounds": 0})
        model = HistGradientBoostingClassifier(**settings)
        answers, rounds = _best(model, train, validation, queries)
        return BaselineAnswers(answers=answers.astype(np.int64), chosen={"rounds": rounds})
    if train.targets.ndim == 1:
        answers, rounds = _best(HistGradientBoostingRegressor(**settings), train, validation, queries)
        return BaselineAnswers(answers=answers, chosen={"rounds": rounds})
    columns = [
        _best(HistGradientBoostingRegressor(**settings), _only(train, one), _only(validation, one), queries)
        for one in range(train.targets.shape[1])
    ]
    return BaselineAnswers(
        answers=np.stack([answers for answers, _ in columns], axis=1),
        chosen={"rounds": [rounds for _, rounds in columns]},
    )


def _best(
    model: Any, train: KnownRows, validation: KnownRows, queries: NDArray[np.float32]
) -> tuple[NDArray[Any], int]:
    """Answers after the best number of rounds, of equally good ones the smallest, and that number."""
    model.fit(train.inputs, train.targets)
    errors = [_error(answers, validation) for answers in model.staged_predict(validation.inputs)]
    rounds = int(np.argmin(errors)) + 1
    return next(islice(model.staged_predict(queries), rounds - 1, None)), rounds


def _error(answers: NDArray[Any], validation: KnownRows) -> float:
    if validation.classes:
        return float(np.mean(answers != validation.targets))
    return float(np.mean((answers - validation.targets.astype(np.float64)) ** 2))


def _only(rows: KnownRows, target: int) -> KnownRows:
    return KnownRows(inputs=rows.inputs, targets=rows.targets[:, target])


def _category_columns(inputs: NDArray[np.float32], categories: int) -> list[bool]:
    """Tell which columns are categories; those with too many for scikit-learn are taken as numbers."""
    first = inputs.shape[1] - categories
    return [column >= first and inputs[:, column].max() <= _MOST_CODE for column in range(inputs.shape[1])]
