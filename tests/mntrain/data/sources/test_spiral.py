"""Spirals of two arms that no straight line tells apart."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.data.tables import TableData


def spiral(**fields: object) -> TableData:
    data = load_data(DataConfig(source="spiral", **fields))  # type: ignore[arg-type]
    assert isinstance(data, TableData)
    return data


def test_points_lie_within_the_square_and_a_line_does_not_part_the_arms() -> None:
    data = spiral()
    assert data.features == 2
    assert data.label_names == ("first", "second")
    assert np.abs(data.train.inputs).max() < 2.1
    line = LogisticRegression().fit(data.train.inputs, data.train.targets)
    assert line.score(data.test.inputs, data.test.targets) < 0.7
    near = KNeighborsClassifier(3).fit(data.train.inputs, data.train.targets)
    assert near.score(data.test.inputs, data.test.targets) > 0.97, "a curve does"


def test_the_seed_of_the_split_decides_the_points() -> None:
    assert spiral().split.sha256 == spiral().split.sha256
    assert spiral().split.sha256 != spiral(split_seed=1).split.sha256


def test_without_noise_points_lie_on_the_arms() -> None:
    data = spiral(noise=0.0, turns=1.0, rows=200)
    x, y = data.train.inputs.T
    radius = np.hypot(x, y)
    expected = 2 * np.pi * (radius - 0.2) / 1.7 + np.pi * data.train.targets
    np.testing.assert_allclose(np.exp(1j * np.arctan2(y, x)), np.exp(1j * expected), atol=1e-4)
