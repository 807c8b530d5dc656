"""Nearest classes, reduced classifiers, and rows of an epoch."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from mntrain.errors import ConfigError
from mntrain.heads.alpha.inputs import module_inputs, reduce_classifiers
from mntrain.heads.alpha.negatives import EpochRows
from mntrain.heads.alpha.neighbors import nearest_classes
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.groups import class_means


def test_neighbors_are_scikit_learns(data: AlphaData) -> None:
    means = class_means(data.split, 14)
    base = data.groups.members("base")
    near = nearest_classes(means, data.few, base, 4)
    distances, order = NearestNeighbors(n_neighbors=4).fit(means[base]).kneighbors(means[data.few])
    assert near.classes.tolist() == base[order].tolist()
    np.testing.assert_allclose(near.distances, distances)
    assert near.members[:, 0].tolist() == data.few.tolist()


def test_a_class_is_never_its_own_neighbor(data: AlphaData) -> None:
    means = class_means(data.split, 14)
    near = nearest_classes(means, data.few, np.arange(14), 13)
    assert all(sorted(members) == list(range(14)) for members in near.members.tolist())
    with pytest.raises(ConfigError, match=r"alpha\.neighbors is 14, but there are 13 classes"):
        nearest_classes(means, data.few, np.arange(14), 14)


@pytest.mark.parametrize("width", [1, 4, 7])
def test_components_are_scikit_learns(classifier: LinearClassifier, width: int) -> None:
    reduced = reduce_classifiers(classifier.weight, width)
    expected = PCA(width, svd_solver="full").fit_transform(classifier.weight.astype(np.float64))
    np.testing.assert_allclose(np.abs(reduced), np.abs(expected), atol=1e-10)
    assert (reduced.max(axis=0) == np.abs(reduced).max(axis=0)).all(), "signs do not depend on the library"


def test_components_are_as_many_as_the_rank_at_most() -> None:
    few_classes = np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)
    assert reduce_classifiers(few_classes, None).shape == (5, 4)
    assert np.array_equal(reduce_classifiers(few_classes, 0), few_classes)
    with pytest.raises(ConfigError, match=r"alpha\.reduced is 5, but the 5 classifiers have 4 principal components"):
        reduce_classifiers(few_classes, 5)
    with pytest.raises(ConfigError, match="All 3 classifiers are equal"):
        reduce_classifiers(np.ones((3, 2), np.float32), 1)


def test_inputs_are_the_own_classifier_then_the_nearest() -> None:
    inputs = module_inputs(np.arange(8.0).reshape(4, 2), np.array([[3, 0, 1], [2, 1, 0]]))
    assert inputs.tolist() == [[6, 7, 0, 1, 2, 3], [4, 5, 2, 3, 0, 1]]


def rows(negatives: float, *, redraw: bool = True, base: int = 50) -> EpochRows:
    random = np.random.default_rng(0)
    return EpochRows(np.arange(10), np.arange(100, 100 + base), negatives, redraw=redraw, generator=random)


@pytest.mark.parametrize(("negatives", "expected"), [(0, 0), (1, 10), (2.5, 25), (100, 50)])
def test_an_epoch_takes_all_few_rows_and_random_others(negatives: float, expected: int) -> None:
    for _, epoch in zip(range(3), rows(negatives), strict=False):
        assert sorted(epoch[epoch < 100]) == list(range(10))
        assert len(set(epoch[epoch >= 100].tolist())) == expected == len(epoch) - 10


def test_negatives_are_drawn_anew_or_once() -> None:
    def first_two(redraw: bool) -> list[list[int]]:
        return [epoch.tolist() for _, epoch in zip(range(2), rows(1, redraw=redraw), strict=False)]

    anew, once = first_two(True), first_two(False)
    assert set(anew[0]) != set(anew[1])
    assert set(once[0]) == set(once[1])
    assert once[0] != once[1]  # the order is another
    assert first_two(True) == anew
