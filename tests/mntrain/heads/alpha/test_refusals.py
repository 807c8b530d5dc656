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
from mntrain.heads.alpha.sweeps import sweep_gamma
from mntrain.heads.classifier import LinearClassifier


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
    ("groups", "message"),
    [
        (("many",) * 14, "No class is few"),
        (("few",) * 14, "Every class is few"),
    ],
)
def test_few_and_base_classes_are_needed(
    data: AlphaData, classifier: LinearClassifier, groups: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        prepare(replace(data, groups=groups), classifier)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ("many",) * 13}, "groups of 13 classes.*has 14 classes"),
        ({"groups": ("tail",) * 14}, "'tail' is no group of classes"),
        ({"labels": np.zeros(3, np.int64)}, r"labels \[3\]"),
        ({"features": np.zeros((620, 6), np.float32)}, "Rows have 6 features, but the base classifier takes 7"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    data: AlphaData, classifier: LinearClassifier, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        prepare(replace(data, **changes), classifier)


def test_labels_beyond_the_classifier_and_classes_without_rows_are_refused(
    data: AlphaData, classifier: LinearClassifier
) -> None:
    with pytest.raises(DataError, match="Labels go from 0 to 14, but the base classifier has 14 classes"):
        prepare(replace(data, labels=np.where(data.labels == 3, 14, data.labels)), classifier)
    with pytest.raises(DataError, match="No training row is of class 'class 3', 'class 12', so there is no mean"):
        prepare(replace(data, labels=np.where(np.isin(data.labels, (3, 12)), 0, data.labels)), classifier)


def test_adamw_on_modules_that_no_memory_holds_is_refused() -> None:
    config = AlphaConfig(optimizer="adamw", hidden=500).resolved()
    with pytest.raises(ConfigError, match=r"would keep 11 GiB for 500 modules.*alpha\.optimizer to sgd"):
        CoefficientNetwork(torch.zeros(500, 3000), config, torch.Generator())


def test_a_sweep_without_values_is_refused(problem: AlphaProblem) -> None:
    with pytest.raises(ConfigError, match=r"sweep of alpha\.gamma needs at least one value"):
        sweep_gamma(problem, AlphaConfig(), 0, lambda _: {}, ())
