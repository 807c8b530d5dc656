"""Pairs of features and labels among arrays that have names.

Shapes: N rows, d features, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from numpy.typing import NDArray

from mntrain.data.reading.split_names import SPLIT_NAMES
from mntrain.errors import DataError
from mntrain.feature_store.arrays.parts import ArrayPart, ArraySet, as_text, check_pair

_FEATURES, _LABELS, _WORDS = "features", "labels", "split"
_WEIGHTS = ("weight", "classifier_weight", "classifier.weight", "fc.weight")
_BIASES = ("bias", "classifier_bias", "classifier.bias", "fc.bias")
_NAMES = ("label_names", "class_names", "classes")


class Members(Protocol):
    """Arrays of a file or folder, by name."""

    names: Sequence[str]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of an array."""

    def read(self, name: str) -> NDArray[Any]:
        """Read a small array whole."""

    def blocks(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield the rows of an array, a block at a time."""

    def where(self, name: str) -> str:
        """Name an array for messages."""


def read_members(members: Members, where: str) -> ArraySet:
    """Find ``features`` and ``labels``, or ``train_features`` and ``train_labels`` and so on, and a classifier.

    Args:
        members: arrays.
        where: the file or folder, for messages.

    Raises:
        DataError: they are not there, or do not fit each other.
    """
    parts = {}
    prefixes = {"": "all"} | {f"{word}_": split for word, split in SPLIT_NAMES.items()}
    for prefix, split in prefixes.items():
        features, labels = f"{prefix}{_FEATURES}", f"{prefix}{_LABELS}"
        if features in members.names and labels in members.names and split not in parts:
            parts[split] = _part(members, features, labels, f"{prefix}{_WORDS}")
    if not parts:
        raise DataError(
            f"{where} holds the arrays {', '.join(members.names) or 'none'}; it must hold features [rows, width] and "
            "labels [rows], or train_features and train_labels, test_features and test_labels."
        )
    return ArraySet(parts=parts, **read_classifier(members))


def read_classifier(members: Members) -> dict[str, Any]:
    """Read weight, bias and class names, those that there are, as fields of an :class:`ArraySet`."""
    found: dict[str, Any] = {}
    for field, candidates in (("weight", _WEIGHTS), ("bias", _BIASES), ("label_names", _NAMES)):
        name = next((name for name in candidates if name in members.names), None)
        if name is not None:
            found[field] = members.read(name)
    if "label_names" in found:
        found["label_names"] = tuple(as_text(name, "label_names") for name in found["label_names"].reshape(-1).tolist())
    return found


def _part(members: Members, features: str, labels: str, words: str) -> ArrayPart:
    shape, found = members.shape(features), members.read(labels)
    split = members.read(words) if words in members.names else None
    check_pair(members.where(features), shape, found, split)
    return ArrayPart(
        where=members.where(features),
        width=shape[1],
        labels=found,
        words=split,
        blocks=partial(members.blocks, features),
    )
