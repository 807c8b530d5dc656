"""Gradient boosting against scikit-learn called by hand; the validation rows choose the number of rounds."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from mntrain.baselines.boosting import boost
from mntrain.baselines.nearest import nearest
from mntrain.baselines.rows import KnownRows

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(160, 3)).astype(np.float32)
X[::9, 0] = np.nan
CODES = RANDOM.integers(-1, 4, size=160)
INPUTS = np.column_stack([X, CODES]).astype(np.float32)
VALUES = (np.nan_to_num(X[:, 0]) + np.array([3.0, -2.0, 0.0, 5.0, 1.0])[CODES] + X[:, 1] ** 2).astype(np.float32)


def rows(part: slice, targets: np.ndarray) -> KnownRows:
    return KnownRows(inputs=INPUTS[part], targets=targets[part])


TRAIN, VALIDATION, TEST = slice(0, 90), slice(90, 125), slice(125, 160)


def by_hand(targets: np.ndarray) -> tuple[np.ndarray, int]:
    model = HistGradientBoostingRegressor(
        max_iter=500, early_stopping=False, random_state=0, categorical_features=[3]
    ).fit(INPUTS[TRAIN], targets[TRAIN])
    errors = [np.mean((found - targets[VALIDATION]) ** 2) for found in model.staged_predict(INPUTS[VALIDATION])]
    best = int(np.argmin(errors))
    return list(model.staged_predict(INPUTS[TEST]))[best], best + 1


def test_values_are_those_of_scikit_learn_with_missing_values_and_categories() -> None:
    found = boost(rows(TRAIN, VALUES), rows(VALIDATION, VALUES), INPUTS[TEST], categories=1)
    expected, rounds = by_hand(VALUES)
    assert found.chosen == {"rounds": rounds}
    np.testing.assert_array_equal(found.answers, expected)
    assert 1 < rounds < 500, "the case shows that validation chooses"


def test_two_target_values_have_a_model_each() -> None:
    both = np.column_stack([VALUES, -VALUES + X[:, 1]]).astype(np.float32)
    found = boost(rows(TRAIN, both), rows(VALIDATION, both), INPUTS[TEST], categories=1)
    singles = [by_hand(both[:, column]) for column in range(2)]
    assert found.chosen == {"rounds": [rounds for _, rounds in singles]}
    np.testing.assert_array_equal(found.answers, np.column_stack([answers for answers, _ in singles]))


def test_classes_are_those_of_scikit_learn() -> None:
    labels = (VALUES > 1).astype(np.int64) + (VALUES > 4)
    found = boost(rows(TRAIN, labels), rows(VALIDATION, labels), INPUTS[TEST])
    model = HistGradientBoostingClassifier(max_iter=500, early_stopping=False, random_state=0)
    model.fit(INPUTS[TRAIN], labels[TRAIN])
    errors = [np.mean(one != labels[VALIDATION]) for one in model.staged_predict(INPUTS[VALIDATION])]
    assert found.chosen == {"rounds": int(np.argmin(errors)) + 1}
    expected = list(model.staged_predict(INPUTS[TEST]))[int(np.argmin(errors))]
    np.testing.assert_array_equal(found.answers, expected)


def test_a_column_of_more_categories_than_scikit_learn_takes_counts_as_numbers() -> None:
    inputs = np.column_stack([X[:, 1], np.arange(160) + 200]).astype(np.float32)
    known = KnownRows(inputs=inputs[TRAIN], targets=VALUES[TRAIN])
    found = boost(known, KnownRows(inputs=inputs[VALIDATION], targets=VALUES[VALIDATION]), inputs[TEST], categories=1)
    assert np.isfinite(found.answers).all()


@pytest.mark.parametrize("seed", range(3))
def test_nearest_neighbors_vote_as_in_scikit_learn(seed: int) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    random = np.random.default_rng(seed)
    inputs = random.normal(size=(150, 2)).astype(np.float32)
    labels = (inputs[:, 0] + random.normal(size=150) > 0).astype(np.int64) + 2 * (inputs[:, 1] > 0)
    parts = [KnownRows(inputs=inputs[part], targets=labels[part]) for part in (slice(0, 80), slice(80, 115))]
    found = nearest(parts[0], parts[1], inputs[115:])
    scores = {
        count: KNeighborsClassifier(count).fit(inputs[:80], labels[:80]).score(inputs[80:115], labels[80:115])
        for count in (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
    }
    best = max(scores, key=lambda count: (scores[count], -count))
    assert found.chosen == {"neighbors": best}
    expected = KNeighborsClassifier(best).fit(inputs[:80], labels[:80]).predict(inputs[115:])
    np.testing.assert_array_equal(found.answers, expected)
