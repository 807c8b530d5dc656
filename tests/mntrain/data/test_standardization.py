"""Standardisation of rows and targets, and refused values."""

import numpy as np
import pytest
import torch

from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.data.tables import TableSet
from mntrain.errors import ConfigError


def rows(count: int = 200) -> TableSet:
    random = np.random.default_rng(0)
    inputs = random.normal([5.0, -300.0, 0.0], [2.0, 40.0, 1e-3], (count, 3)).astype(np.float32)
    return TableSet(inputs=inputs, targets=random.normal(70.0, 9.0, count).astype(np.float32))


def test_every_column_and_the_target_get_mean_0_and_deviation_1() -> None:
    train = rows()
    config = StandardizationConfig.from_rows(train)
    out = Standardization(config)(torch.from_numpy(train.inputs))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.std(0, correction=0), torch.ones(3), atol=1e-5, rtol=0)
    targets = config.targets(train).targets
    assert targets.dtype == np.float32
    assert (targets.mean(), targets.std()) == pytest.approx((0.0, 1.0), abs=1e-5)
    np.testing.assert_array_equal(config.inputs(train.inputs), out.numpy())


def test_a_column_far_from_0_keeps_its_digits() -> None:
    inputs = (1e6 + np.arange(64, dtype=np.float64)[:, None]).astype(np.float32)
    config = StandardizationConfig.from_rows(TableSet(inputs=inputs, targets=np.zeros(64, np.int64)))
    exact = (inputs.astype(np.float64) - config.mean[0]) / config.std[0]
    np.testing.assert_allclose(config.inputs(inputs), exact, atol=1e-4)


def test_a_column_of_one_value_is_only_shifted() -> None:
    inputs = np.full((10, 1), 0.1, dtype=np.float32)
    config = StandardizationConfig.from_rows(TableSet(inputs=inputs, targets=np.full(10, 7.3, np.float32)))
    assert (config.std, config.target_std) == ((1.0,), 1.0)
    np.testing.assert_allclose(config.inputs(inputs), 0.0, atol=1e-7)


def test_labels_are_left_alone() -> None:
    labelled = TableSet(inputs=rows(6).inputs, targets=np.array([0, 1, 2, 0, 1, 2], np.int64))
    config = StandardizationConfig.from_rows(labelled)
    assert config.targets(labelled) is labelled
    assert (config.target_mean, config.target_std) == (0.0, 1.0)


def test_identity_changes_nothing_and_no_buffer_is_saved() -> None:
    config = StandardizationConfig.identity(3)
    np.testing.assert_array_equal(config.inputs(rows().inputs), rows().inputs)
    np.testing.assert_array_equal(config.targets(rows()).targets, rows().targets)
    assert not Standardization(config).state_dict()


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="float64"):
        Standardization(StandardizationConfig.identity(1))(torch.zeros(1, 1, dtype=torch.float64))


@pytest.mark.parametrize(
    "fields",
    [
        {"mean": (), "std": ()},
        {"mean": (0.0,), "std": (1.0, 1.0)},
        {"mean": (float("nan"),), "std": (1.0,)},
        {"mean": (0.0,), "std": (0.0,)},
        {"mean": (0.0,), "std": (1.0,), "target_std": 0.0},
        {"mean": (0.0,), "std": (1.0,), "target_mean": float("inf")},
    ],
)
def test_wrong_means_and_deviations_are_refused(fields: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(ConfigError, match="standardization"):
        StandardizationConfig(**fields)  # type: ignore[arg-type]
