"""Classes and splits of foreign features.

Shapes: N rows of a part, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.data.config import DataConfig
from mntrain.data.examples import IndexArray
from mntrain.data.labels import check_names, listing
from mntrain.data.reading.split_names import split_of
from mntrain.data.split import split_table
from mntrain.data.split_record import SPLITS, SplitRecord
from mntrain.data.tables import SourceTable, TableSet
from mntrain.errors import DataError
from mntrain.feature_store.arrays.parts import ArrayPart, ArraySet, as_text


@dataclass(frozen=True, kw_only=True, eq=False)
class ArraySplits:
    """Place of every row in the store.

    Args:
        label_names: of the C classes.
        labels: split → int64 [N of the split].
        targets: part → for each split the positions of its rows in the part (int64, ascending).
        record: of the split.
    """

    label_names: tuple[str, ...]
    labels: Mapping[str, IndexArray]
    targets: Mapping[str, Mapping[str, IndexArray]]
    record: SplitRecord


def split_arrays(arrays: ArraySet, config: DataConfig) -> ArraySplits:
    """Number the classes, and draw the splits that the files do not have.

    Raises:
        DataError: labels beyond the classifier or the names, or a class without training rows.
        ConfigError: ``train_limit`` does not fit.
    """
    names, numbered = _classes(arrays)
    # Split of the files → its part, and positions there; the rows of a part may carry a split each.
    own: dict[str, tuple[str, IndexArray]] = {}
    for name, part in arrays.parts.items():
        for split, positions in _own_splits(name, part).items():
            own[split] = (name, positions)
    pools = {
        split: TableSet(inputs=np.zeros((len(positions), 1), np.float32), targets=numbered[name][positions])
        for split, (name, positions) in own.items()
    }
    source = SourceTable(splits=pools, feature_names=("row",), target_names=("label",), label_names=names)
    record = split_table(source, config).split
    targets: dict[str, dict[str, IndexArray]] = {name: {} for name in arrays.parts}
    labels = {}
    for split in SPLITS:
        name, positions = own[record.origins[split]]
        chosen = positions[record.indices[split]]
        targets[name][split] = chosen
        labels[split] = numbered[name][chosen]
    empty = [names[label] for label in np.flatnonzero(np.bincount(labels["train"], minlength=len(names)) == 0)]
    if empty:
        raise DataError(
            f"{len(empty)} of {len(names)} classes have no training row: {listing([repr(name) for name in empty])}; "
            "add rows of each, or take these classes out of labels, names and classifier."
        )
    return ArraySplits(label_names=names, labels=labels, targets=targets, record=record)


def _own_splits(name: str, part: ArrayPart) -> dict[str, IndexArray]:
    """Positions of the splits that a part has itself."""
    if part.words is None:
        return {name: np.arange(len(part), dtype=np.int64)}
    words = np.array([as_text(word, part.where) for word in part.words.tolist()])
    found: dict[str, IndexArray] = {}
    for word in np.unique(words):
        split = split_of(str(word))
        if split is None:
            raise DataError(f"{part.where}: a row is of the split {str(word)!r}; choose train, validation or test.")
        rows = np.flatnonzero(words == word)
        found[split] = np.sort(np.concatenate([found.get(split, rows[:0]), rows]))
    if "train" not in found:
        raise DataError(f"{part.where}: no row is of the split train; mark some.")
    return found


def _classes(arrays: ArraySet) -> tuple[tuple[str, ...], dict[str, IndexArray]]:
    """Names of the classes, and labels of every part as numbers."""
    given = arrays.label_names
    kinds = {part.labels.dtype.kind in "iu" for part in arrays.parts.values()}
    if len(kinds) > 1:
        raise DataError("Some labels are whole numbers and others are names; give all of one kind.")
    if not kinds.pop():
        return _by_name(arrays, given)
    rows = None if arrays.weight is None else len(arrays.weight)
    highest = max(int(part.labels.max()) for part in arrays.parts.values())
    count = len(given) if given is not None else rows or highest + 1
    for part in arrays.parts.values():
        wrong = np.flatnonzero((part.labels < 0) | (part.labels >= count))
        if len(wrong) and given is None and rows is None:  # only numbers below 0 are wrong then
            raise DataError(
                f"{part.where}: row {int(wrong[0])} has label {int(part.labels[wrong[0]])}, but labels must be whole "
                f"numbers from 0 on; {len(wrong)} row(s) are below. Number the classes from 0, or give their names."
            )
        if len(wrong):
            limit = "names" if given is not None else "rows of the classifier"
            raise DataError(
                f"{part.where}: row {int(wrong[0])} has label {int(part.labels[wrong[0]])}, but labels must be 0 to "
                f"{count - 1} ({count} {limit}); {len(wrong)} row(s) are "
                "outside. Correct them, or give the classifier and names of all classes."
            )
    names = given if given is not None else tuple(str(number) for number in range(count))
    check_names(names)
    return names, {name: part.labels.astype(np.int64) for name, part in arrays.parts.items()}


def _by_name(arrays: ArraySet, given: tuple[str, ...] | None) -> tuple[tuple[str, ...], dict[str, IndexArray]]:
    texts: dict[str, NDArray[Any]] = {
        name: np.array([as_text(label, part.where) for label in part.labels.tolist()])
        for name, part in arrays.parts.items()
    }
    present = sorted({str(label) for labels in texts.values() for label in np.unique(labels)})
    names = given if given is not None else tuple(present)
    check_names(names)
    unknown = [label for label in present if label not in set(names)]
    if unknown:
        raise DataError(f"Labels {listing(list(map(repr, unknown)))} are not among the {len(names)} given class names.")
    number = {name: position for position, name in enumerate(names)}
    return names, {
        name: np.array([number[str(label)] for label in labels], dtype=np.int64) for name, labels in texts.items()
    }
