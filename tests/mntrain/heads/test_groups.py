"""Groups of classes and their neighbors, against written-out definitions."""

from __future__ import annotations

import numpy as np
import pytest

from mntrain.errors import ConfigError
from mntrain.feature_store.store import FeatureStore
from mntrain.heads.groups import ClassGroups, class_means, nearest_means


def test_groups_follow_the_numbers_of_training_rows(store: FeatureStore) -> None:
    groups = ClassGroups(counts=store.counts)
    assert groups.sizes() == {"few": 3, "medium": 3, "many": 2, "all": 8}
    assert groups.members("base").tolist() == [0, 1, 2, 3, 4]
    assert ClassGroups(counts=np.array([101, 100, 20, 19])).names() == ("many", "medium", "medium", "few")


def test_nearest_base_classes_are_those_of_the_nearest_means(store: FeatureStore) -> None:
    groups = ClassGroups(counts=store.counts)
    means = class_means(store.train, store.classes)
    for label in range(store.classes):
        own = store.train.features[store.train.labels == label].astype(np.float64)
        np.testing.assert_allclose(means[label], own.mean(axis=0))
    everyone = np.arange(store.classes)
    near, distances = nearest_means(means, everyone, groups.members("base"), 2)
    for label in range(8):
        candidates = [other for other in range(5) if other != label]
        expected = sorted(candidates, key=lambda other: float(np.linalg.norm(means[label] - means[other])))[:2]
        assert near[label].tolist() == expected
        np.testing.assert_allclose(distances[label, 0], np.linalg.norm(means[label] - means[expected[0]]))


def test_methods_for_few_need_classes_of_few_and_enough_base_classes(store: FeatureStore) -> None:
    with pytest.raises(
        ConfigError, match=r"fewer than 3 training examples, but there is none: .* 5 to 150 .*--head.few"
    ):
        ClassGroups(counts=store.counts, few=3).require_few("bias")
    with pytest.raises(ConfigError, match=r"takes 6 base class\(es\).*there are 5.*Lower --head.neighbors"):
        ClassGroups(counts=store.counts).require_few("fixed", 6)
    with pytest.raises(ConfigError, match="smaller number"):
        ClassGroups(counts=store.counts, many=10, few=30)
