"""Answers of a linear head in float32 against float64, for features near 0 and far from it."""

from __future__ import annotations

import numpy as np
import pytest

from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.rounding import Rounding


def rounding(far: float) -> Rounding:
    """Round a head on 5000 rows around ``far``, with many classes that are nearly as likely as each other."""
    generator = np.random.default_rng(2)
    features = (generator.normal(size=(5000, 16)) + far).astype(np.float32)
    classifier = FeatureScale.of(features).folded(generator.normal(size=(50, 16)), generator.normal(size=50))
    found = Rounding.of(classifier, features)
    exact = features.astype(np.float64) @ classifier.weight.T.astype(np.float64) + classifier.bias
    assert found.changed == (classifier.logits(features).argmax(axis=1) != exact.argmax(axis=1)).sum()
    return found


def test_features_near_0_have_no_note() -> None:
    found = rounding(0)
    assert found.rows == 5000
    assert found.largest < 1e-4
    assert found.note() is None


def test_features_far_from_0_are_told_with_rows_and_remedy() -> None:
    found = rounding(1e6)
    assert found.changed > 50
    note = found.note()
    assert note is not None
    assert note.startswith(f"{found.changed:,} of 5,000 validation rows have another answer in float64")
    assert "Subtract the mean of each feature" in note


@pytest.mark.parametrize(("changed", "told"), [(0, False), (5, False), (6, True)])
def test_a_thousandth_of_the_rows_means_nothing(changed: int, told: bool) -> None:
    assert (Rounding(rows=5000, changed=changed, largest=0.1).note() is not None) == told
