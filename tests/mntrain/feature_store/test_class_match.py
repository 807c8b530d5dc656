"""Classifier of a network for the classes of the data."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from mntrain.feature_store.class_match import match_classes
from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.frozen_network import FrozenNetwork


class Known:
    """What is read of a network: a classifier of four classes, whose row c holds the number c."""

    classifier = LinearClassifier(weight=np.arange(4, dtype=np.float32)[:, None], bias=np.arange(4, dtype=np.float32))

    def __init__(self, *names: str) -> None:
        self.label_names = names


@pytest.mark.parametrize(
    ("known", "names", "rows"),
    [
        (("cow", "ant", "bee", "dog"), ("ant", "bee", "dog"), [1, 2, 3]),
        (("cow", "ant", "bee", "dog"), ("dog", "cow"), [3, 0]),
        (("cow", "ant", "bee", "dog"), ("cow", "elk"), None),
        (("crane", "ant", "crane", "dog"), ("ant", "crane"), None),
        (("crane", "ant", "crane", "dog"), ("dog", "ant"), [3, 1]),
    ],
)
def test_rows_are_taken_by_names_that_are_clear(
    known: tuple[str, ...], names: tuple[str, ...], rows: list[int] | None
) -> None:
    classifier, words = match_classes(cast(FrozenNetwork, Known(*known)), names)
    if rows is None:
        assert classifier is None
        assert "so the store has none" in words
    else:
        assert classifier is not None
        assert classifier.bias.tolist() == rows
        assert classifier.weight[:, 0].tolist() == rows
