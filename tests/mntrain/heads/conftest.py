"""Made-up features of eight classes, long-tailed in training and balanced after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mntrain.feature_store.store import FeatureSplit, FeatureStore, open_store
from mntrain.feature_store.writing import StoreContent, write_store
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.groups import ClassGroups
from mntrain.heads.methods.linear import joint
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.settings import HeadSections, HeadSettings
from mntrain.networks.record import NetworkRecord

COUNTS = (150, 120, 60, 40, 30, 12, 8, 5)
FEATURES = 6
QUICK = HeadSettings(least_steps=60, epochs=1, batch_size=64, learning_rate=0.1, neighbors=3)


def features_of(counts: tuple[int, ...], generator: np.random.Generator, seed: int = 3) -> FeatureSplit:
    """Draw rows around the mean of each class, with features of unequal place and size."""
    means = np.random.default_rng(seed).normal(size=(len(counts), FEATURES)) * 1.3
    labels = np.repeat(np.arange(len(counts)), counts)
    rows = (means[labels] + generator.normal(size=(len(labels), FEATURES))) * np.linspace(0.5, 4, FEATURES) + 5
    order = generator.permutation(len(labels))
    return FeatureSplit(features=rows[order].astype(np.float32), labels=labels[order].astype(np.int64))


def _write(path: Path, counts: tuple[int, ...] = COUNTS, seed: int = 0, own: bool = True) -> Path:
    """Write a store; ``own`` gives its network a last layer."""
    generator = np.random.default_rng(seed)
    even = (10,) * len(counts)
    splits = {"train": counts, "validation": even, "test": even}
    last = LinearClassifier(
        weight=generator.normal(size=(len(counts), FEATURES)).astype(np.float32),
        bias=generator.normal(size=len(counts)).astype(np.float32),
    )
    content = StoreContent(
        network=NetworkRecord(kind="arrays", name="made up", sha256="0" * 64, features=FEATURES, pixels=None),
        label_names=tuple(f"class {place}" for place in range(len(counts))),
        splits={name: features_of(of_split, generator) for name, of_split in splits.items()},
        classifier=last if own else None,
    )
    write_store(path, content)
    return path


@pytest.fixture(scope="session")
def write_features() -> Callable[..., Path]:
    """Writer of a store: folder, training rows of each class, seed, and whether the network has a last layer."""
    return _write


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """Eight classes: two of many, three of medium and three of few rows."""
    return open_store(_write(tmp_path_factory.mktemp("features") / "tail"))


@pytest.fixture(scope="session")
def problem(store: FeatureStore) -> HeadProblem:
    """The problem of methods that start from no classifier."""
    return HeadProblem(
        store=store,
        settings=HeadSections(head=QUICK),
        seed=0,
        scale=FeatureScale.of(store.train.features),
        groups=ClassGroups(counts=store.counts),
    )


@pytest.fixture(scope="session")
def base(problem: HeadProblem) -> HeadResult:
    """The linear probe."""
    return joint(problem)
