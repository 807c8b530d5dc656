"""Standardisation of rows and targets, and refused values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.data.tables import Imputation, TableSet
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
        {"mean": (0.0,), "std": (1.0,), "fill": (1.0, 2.0)},
        {"mean": (0.0,), "std": (1.0,), "fill": (float("nan"),)},
        {"mean": (0.0,), "std": (1.0,), "target_mean": (0.0, 0.0)},
        {"mean": (0.0,), "std": (1.0,), "target_mean": (0.0, 0.0), "target_std": (1.0, 0.0)},
    ],
)
def test_wrong_means_and_deviations_are_refused(fields: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(ConfigError, match="standardization"):
        StandardizationConfig(**fields)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-1e3, 1e3, width=32)), min_size=4, max_size=30).filter(
        lambda values: any(value is not None for value in values)
    ),
    st.sampled_from(["median", "mean"]),
)
def test_missing_numbers_are_filled_like_those_of_scikit_learn(values: list[float | None], rule: Imputation) -> None:
    column = np.array([[np.nan if value is None else value] for value in values], np.float32)
    train = TableSet(inputs=column, targets=np.zeros(len(column), np.int64))
    config = StandardizationConfig.from_rows(train, imputation=rule, scaled=False)
    expected = SimpleImputer(strategy=rule).fit_transform(column.astype(np.float64))
    np.testing.assert_allclose(config.inputs(column), expected, rtol=1e-6, atol=1e-6)
    scaled = StandardizationConfig.from_rows(train, imputation=rule)
    assert scaled.mean[0] == pytest.approx(expected.mean(), rel=1e-9, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 2)), min_size=1, max_size=20),
    st.sampled_from([0, 2]),
)
def test_categories_are_one_hot_like_those_of_scikit_learn(codes: list[tuple[int, int]], numbers: int) -> None:
    known = [np.arange(5), np.arange(3)]
    encoder = OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False).fit([[0, 0]])
    rows = np.concatenate([np.full((len(codes), numbers), 7.0), np.array(codes)], axis=1).astype(np.float32)
    config = StandardizationConfig(mean=(5.0,) * numbers, std=(2.0,) * numbers, category_sizes=(5, 3))
    encoded = config.inputs(rows)
    assert (config.columns, config.width) == (numbers + 2, numbers + 8)
    np.testing.assert_array_equal(encoded[:, :numbers], 1.0)
    np.testing.assert_array_equal(encoded[:, numbers:], encoder.transform(np.array(codes)))


def test_rows_of_numbers_keep_their_graph() -> None:
    plain = Standardization(StandardizationConfig.identity(3))
    assert [name for name, _ in plain.named_buffers()] == ["mean", "scale"]
    filled = StandardizationConfig(mean=(1.0,) * 3, std=(2.0,) * 3, fill=(3.0,) * 3)
    assert [name for name, _ in Standardization(filled).named_buffers()] == ["mean", "scale", "fill"]
    without = StandardizationConfig(mean=(1.0,) * 3, std=(2.0,) * 3)
    np.testing.assert_array_equal(filled.inputs(rows().inputs), without.inputs(rows().inputs))


def test_several_targets_are_standardised_each_by_its_own() -> None:
    random = np.random.default_rng(0)
    targets = random.normal([5.0, -300.0], [2.0, 40.0], (200, 2)).astype(np.float32)
    several = TableSet(inputs=rows().inputs, targets=targets)
    config = StandardizationConfig.from_rows(several)
    assert (np.shape(config.target_mean), np.shape(config.target_std)) == ((2,), (2,))
    for column in range(2):
        single = TableSet(inputs=rows().inputs, targets=targets[:, column])
        alone = StandardizationConfig.from_rows(single).targets(single).targets
        np.testing.assert_allclose(config.targets(several).targets[:, column], alone, rtol=1e-6)
    unscaled = StandardizationConfig.from_rows(several, scaled=False)
    assert (unscaled.target_mean, unscaled.target_std) == ((0.0, 0.0), (1.0, 1.0))
