"""Composition of classifiers: what stays, and what a folded classifier answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mntrain.heads.alpha.compose import compose
from mntrain.heads.classifier import LinearClassifier

CLASSES, FEATURES = 6, 3
FINITE = st.floats(-(2.0**100), 2.0**100, width=32)
SMALL = st.floats(-10, 10, width=32)
MEMBERS = np.array([[4, 0, 2], [5, 1, 4]])


def classifiers(values: Any) -> Any:
    return st.builds(
        lambda weight, bias: LinearClassifier(weight=weight, bias=bias),
        arrays(np.float32, (CLASSES, FEATURES), elements=values),
        arrays(np.float32, CLASSES, elements=values),
    )


@given(base=classifiers(FINITE), compose_bias=st.booleans())
def test_coefficient_one_for_the_own_classifier_changes_no_bit(base: LinearClassifier, compose_bias: bool) -> None:
    composed = compose(base, MEMBERS, np.array([[1.0, 0, 0], [1, 0, 0]], np.float32), compose_bias=compose_bias)
    assert composed.weight.tobytes() == base.weight.tobytes()
    assert composed.bias.tobytes() == base.bias.tobytes()


@given(
    base=classifiers(SMALL),
    coefficients=arrays(np.float64, (2, 3), elements=st.floats(-1, 1)),
    rows=arrays(np.float32, (4, FEATURES), elements=SMALL),
)
def test_a_folded_classifier_answers_as_its_members_together(
    base: LinearClassifier, coefficients: Any, rows: Any
) -> None:
    composed = compose(base, MEMBERS, coefficients)
    logits = rows.astype(np.float64) @ base.weight.astype(np.float64).T + base.bias
    expected = logits.copy()
    for own, parts, shares in zip((4, 5), MEMBERS, coefficients, strict=True):
        expected[:, own] = logits[:, parts] @ shares
    np.testing.assert_allclose(composed.logits(rows), expected, rtol=1e-4, atol=1e-3)


@given(base=classifiers(SMALL), coefficients=arrays(np.float64, (2, 3), elements=st.floats(-1, 1)))
def test_base_classes_and_kept_biases_change_no_bit(base: LinearClassifier, coefficients: Any) -> None:
    composed = compose(base, MEMBERS, coefficients, compose_bias=False)
    assert composed.weight[:4].tobytes() == base.weight[:4].tobytes()
    assert composed.bias.tobytes() == base.bias.tobytes()


def test_neighbors_are_the_base_classifiers_own_and_not_composed_ones() -> None:
    """Class 5 has class 4 as a member, which is composed as well."""
    base = LinearClassifier(weight=np.eye(6, dtype=np.float32), bias=np.arange(6, dtype=np.float32))
    composed = compose(base, MEMBERS, np.array([[0.5, 0.25, 0.25], [0.5, 0.0, 0.5]]))
    assert composed.weight[5].tolist() == [0, 0, 0, 0, 0.5, 0.5]
    assert composed.bias.tolist() == [0, 1, 2, 3, 0.5 * 4 + 0.25 * 2, 4.5]
