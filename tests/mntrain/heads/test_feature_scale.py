"""Standardisation of features: what it measures, and that a folded classifier answers alike."""

from __future__ import annotations

import numpy as np
import pytest

from mntrain.errors import DataError
from mntrain.heads.feature_scale import FeatureScale


@pytest.fixture
def rows() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    generator = np.random.default_rng(0)
    return (generator.normal(size=(5000, 3)) * [1, 20, 0] + [0, 300, 7]).astype(np.float32)


def test_mean_and_deviation_are_those_of_all_rows(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    scale = FeatureScale.of(rows)
    np.testing.assert_allclose(scale.mean, rows.astype(np.float64).mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scale.std[:2], rows[:, :2].astype(np.float64).std(axis=0), rtol=1e-9)
    assert scale.std[2] == np.inf


def test_a_folded_classifier_scores_stored_features_as_the_other_scores_standardised_ones(
    rows: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    generator, scale = np.random.default_rng(1), FeatureScale.of(rows)
    weight, bias = generator.normal(size=(4, 3)) * [1, 1, 0], generator.normal(size=4)
    folded = scale.folded(weight, bias)
    expected = (rows.astype(np.float64) - scale.mean) / scale.std @ weight.T + bias
    np.testing.assert_allclose(folded.logits(rows), expected, atol=1e-4)
    back = scale.unfolded(folded)
    np.testing.assert_allclose(back[0], weight, rtol=1e-5)
    np.testing.assert_allclose(back[1], bias, atol=1e-4)


def test_rows_that_are_not_finite_are_told(rows: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    rows[[4500, 4700], 1] = np.nan
    with pytest.raises(DataError, match=r"training rows hold NaN .* the first in row 4500; write the store again"):
        FeatureScale.of(rows, "training rows")


def test_a_feature_of_one_value_is_left_out_whatever_weight_it_has_by_chance(
    rows: np.ndarray[tuple[int, int], np.dtype[np.float32]],
) -> None:
    rows[:, 2] = 0.1  # whose sums are rounded, so that the deviation is not quite 0
    scale = FeatureScale.of(rows)
    np.testing.assert_array_equal(scale.rows(rows)[:, 2], 0)
    folded = scale.folded(np.ones((4, 3)), np.zeros(4))
    assert folded.weight[:, 2].tolist() == [0, 0, 0, 0]
    other = rows + np.array([0, 0, 50], np.float32)
    np.testing.assert_array_equal(folded.logits(other), folded.logits(rows))
    np.testing.assert_array_equal(scale.unfolded(folded)[0][:, 2], 0)


def test_features_far_from_0_are_kept_and_the_places_of_rounding_left_out() -> None:
    """At 3e6 float32 has steps of 0.25: a deviation of 1 is of many, a network's rounding of one or two."""
    generator = np.random.default_rng(4)
    features = np.full((400, 3), 3e6, np.float32)
    features[:, 0] += generator.normal(size=400).astype(np.float32)
    features[:, 1] += generator.integers(0, 3, 400).astype(np.float32) * np.float32(0.25)
    scale = FeatureScale.of(features)
    assert np.isinf(scale.std).tolist() == [False, True, True]
    assert scale.left_out == 2
    assert scale.rows(features)[:, 0].std() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("unit", [1e-36, 1e-30, 1.0, 1e30])
def test_no_unit_makes_a_feature_constant(unit: float) -> None:
    rows = (np.random.default_rng(0).normal(size=(50, 2)) * 100 * unit).astype(np.float32)
    assert FeatureScale.of(rows).left_out == 0


@pytest.mark.parametrize("unit", [1e-42, 5e37])
@pytest.mark.filterwarnings("error")
def test_units_that_float32_has_no_weights_for_are_refused_with_their_remedy(unit: float) -> None:
    rows = (np.random.default_rng(0).normal(size=(50, 2)) * unit).astype(np.float32)
    with pytest.raises(DataError, match=r"rows of x have features with deviations of .*Multiply the features"):
        FeatureScale.of(rows, "training rows of x")


def test_a_feature_of_subnormal_values_among_others_is_left_out() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2)) * [1, 1e-40]
    scale = FeatureScale.of(rows.astype(np.float32))
    assert np.isinf(scale.std).tolist() == [False, True]


@pytest.mark.filterwarnings("error")
def test_weights_beyond_float32_are_told_with_the_scale_of_features() -> None:
    scale = FeatureScale(mean=np.zeros(2), std=np.array([1e-34, np.inf]))
    with pytest.raises(DataError, match=r"weights or biases of up to 1e\+39, beyond float32.*deviations of 1e-34"):
        scale.folded(np.array([[1e5, 1.0]]), np.zeros(1))


def test_features_that_all_have_one_value_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"training rows of x have one value in every one of 3 features.*write the store"
    ):
        FeatureScale.of(np.ones((5, 3), np.float32), "training rows of x")


@pytest.mark.parametrize("far", [1e2, 1e4])
def test_features_far_from_0_lose_no_more_than_their_own_rounding(far: float) -> None:
    """Deviations of 1 around a large mean: trained on standardised rows, answered from the stored ones."""
    generator = np.random.default_rng(2)
    features = (generator.normal(size=(2000, 16)) + far).astype(np.float32)
    scale = FeatureScale.of(features)
    weight, bias = generator.normal(size=(5, 16)), generator.normal(size=5)
    exact = (features.astype(np.float64) - scale.mean) / scale.std @ weight.T + bias
    most = 30 * far * 2.0**-23 + 1e-5
    np.testing.assert_allclose(scale.rows(features) @ weight.T + bias, exact, atol=most)
    np.testing.assert_allclose(scale.folded(weight, bias).logits(features), exact, atol=most)
