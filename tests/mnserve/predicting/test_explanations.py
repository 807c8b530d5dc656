"""Explanations are read from whatever a model or a server answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mnserve.errors import ImageModelError
from mnserve.predicting.explanations import read_explanations

LABELS = ("red", "green", "blue")


def outputs(**changes: Any) -> dict[str, Any]:
    """Of two images and two neighbors."""
    return {
        "neighbor_indices": np.array([[4, 0], [1, 7]], np.int64),
        "neighbor_weights": np.array([[0.75, 0.25], [1.0, 0.0]], np.float32),
        "neighbor_labels": np.array([[2, 0], [1, 1]], np.int64),
        "unadapted_probabilities": np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], np.float32),
    } | changes


def test_every_image_has_an_explanation_of_its_own() -> None:
    first, second = read_explanations(outputs(), LABELS, 2)
    assert [(one.entry, one.label, one.weight) for one in first.neighbors] == [(4, "blue", 0.75), (0, "red", 0.25)]
    assert (first.unadapted_label, first.unadapted_probability) == ("red", 0.5)
    assert [one.entry for one in second.neighbors] == [1, 7]
    assert second.unadapted_label == "blue"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"neighbor_labels": np.array([[99, 0], [1, 1]])}, "'neighbor_labels' has values outside of 0 to 2"),
        ({"neighbor_labels": np.array([[-1, 0], [1, 1]])}, "'neighbor_labels' has values outside"),
        ({"neighbor_labels": np.array([[1], [1]])}, r"'neighbor_labels' is int64 \[2, 1\]"),
        ({"neighbor_labels": np.array([[1.0, 0.0], [1.0, 1.0]])}, "needs whole numbers"),
        ({"neighbor_indices": np.array([4, 0])}, "'neighbor_indices'"),
        ({"neighbor_indices": np.array([[b"a", b"b"]] * 2, object)}, "'neighbor_indices' is object"),
        ({"neighbor_weights": np.array([[1, 0], [1, 0]], np.uint16)}, "'neighbor_weights' is uint16"),
        ({"neighbor_weights": np.array([[np.nan, 0], [1, 0]])}, "'neighbor_weights' has values outside of 0 to 1"),
        ({"neighbor_weights": np.array([[-0.5, 0], [1, 0]])}, "'neighbor_weights' has values outside of 0 to 1"),
        ({"unadapted_probabilities": np.full((2, 20), 0.05)}, r"is float64 \[2, 20\] for 2 image\(s\) and 3 classes"),
        ({"unadapted_probabilities": np.full((2, 3), np.nan)}, "not finite"),
        ({"unadapted_probabilities": np.full((2, 3), 7.0)}, "outside of 0 to 1"),
        ({name: array[:1] for name, array in outputs().items()}, r"for 2 image\(s\)"),
    ],
)
def test_invalid_outputs_of_an_explanation_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ImageModelError, match=words):
        read_explanations(outputs(**changes), LABELS, 2)
