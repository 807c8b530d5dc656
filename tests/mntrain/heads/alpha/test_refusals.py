"""Wrong settings and data are refused with a remedy, before any training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mntrain.errors import ConfigError, DataError
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.network import CoefficientNetwork
from mntrain.heads.alpha.problem import AlphaProblem, prepare
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.alpha.stage import compose_few_classes
from mntrain.heads.alpha.sweeps import sweep_neighbors
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.groups import ClassGroups


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gamma", 0.0),
        ("gamma", -0.1),
        ("gamma", 1.1),
        ("gamma", float("nan")),
        ("neighbors", 0),
        ("reduced", -1),
        ("hidden", -1),
        ("batch_size", 0),
        ("epochs", -1),
        ("drop_every", -2),
        ("drop_factor", 0.0),
        ("negatives", -1.0),
        ("learning_rate", -0.1),
        ("momentum", 1.0),
        ("weight_decay", -1.0),
        ("source", "few"),
        ("clamp", "all"),
        ("network", "mlp"),
        ("optimizer", "adam"),
        ("start", "outside"),
        ("bias", "none"),
        ("redraw", "never"),
    ],
)
def test_a_wrong_value_is_told_with_its_field_and_limit(field: str, value: Any) -> None:
    values: dict[str, Any] = {field: value}
    with pytest.raises(ConfigError, match=rf"alpha\.{field} is {value!r}; it must be \w+"):
        AlphaConfig(**values)


@pytest.mark.parametrize("settings", [{"gamma": 0.5}, {"clamp": "own"}, {"start": "ordinary"}])
def test_settings_of_a_clamp_without_one_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"alpha\.network is 'later', whose coefficients are not clamped.*leave"):
        AlphaConfig(network="later", **settings)


def test_limits_themselves_are_right() -> None:
    AlphaConfig(gamma=1.0, neighbors=1, reduced=0, negatives=0.0, momentum=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"neighbors": 10}, r"alpha\.neighbors is 10, but there are 9 classes.*lower"),
        ({"neighbors": 5, "source": "many"}, r"there are 4 classes.*set alpha\.source to base or all"),
        ({"reduced": 8}, r"alpha\.reduced is 8, but the 14 classifiers have 7 principal components"),
    ],
)
def test_settings_beyond_the_classes_are_refused(problem: AlphaProblem, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_few_classes(problem, AlphaConfig(**settings), 0)


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"few": 5}, "fewer than 5 training examples, but there is none"),
        ({"few": 111, "many": 200}, "Every class is one of few examples.*lower --head.few"),
    ],
)
def test_few_and_base_classes_are_needed(
    data: AlphaData, classifier: LinearClassifier, thresholds: dict[str, int], message: str
) -> None:
    groups = ClassGroups(counts=data.groups.counts, **thresholds)
    with pytest.raises(ConfigError, match=message):
        prepare(replace(data, groups=groups), classifier)


def changed(data: AlphaData, **arrays: Any) -> AlphaData:
    return replace(data, split=replace(data.split, **arrays))


def test_data_that_does_not_fit_is_refused(data: AlphaData, classifier: LinearClassifier) -> None:
    wrong = {
        r"labels \[3\]": changed(data, labels=np.zeros(3, np.int64)),
        "Rows have 6 features, but the base classifier takes 7": changed(
            data, features=np.zeros((len(data.split), 6), np.float32)
        ),
        "counts of 13 classes.*has 14 classes": replace(data, groups=ClassGroups(counts=data.groups.counts[1:])),
    }
    for message, given in wrong.items():
        with pytest.raises(DataError, match=message):
            prepare(given, classifier)


def test_labels_beyond_the_classifier_and_classes_without_rows_are_refused(
    data: AlphaData, classifier: LinearClassifier
) -> None:
    labels = data.split.labels
    with pytest.raises(DataError, match="Labels go from 0 to 14, but the base classifier has 14 classes"):
        prepare(changed(data, labels=np.where(labels == 3, 14, labels)), classifier)
    with pytest.raises(DataError, match="No training row is of class 'class 3', 'class 12', so there is no mean"):
        prepare(changed(data, labels=np.where(np.isin(labels, (3, 12)), 0, labels)), classifier)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(data: AlphaData, classifier: LinearClassifier, value: float) -> None:
    features = data.split.features.copy()
    features[-1, 2] = value
    with pytest.raises(DataError, match="rows of class 'class 13' hold NaN or infinite features"):
        prepare(changed(data, features=features), classifier)


def test_adamw_on_modules_that_no_memory_holds_is_refused() -> None:
    config = AlphaConfig(optimizer="adamw", hidden=500).resolved()
    with pytest.raises(ConfigError, match=r"would keep 11 GiB for 500 modules.*alpha\.optimizer to sgd"):
        CoefficientNetwork(torch.zeros(500, 3000), config, torch.Generator())


def test_a_sweep_of_more_neighbors_than_classes_is_refused(problem: AlphaProblem) -> None:
    with pytest.raises(
        ConfigError, match="over 5, 10 neighbors needs as many classes to choose among, but there are 4"
    ):
        sweep_neighbors(problem, AlphaConfig(source="many"), 0, (5, 10))
