"""Read the labels of all splits as numbers of the same classes, which are matched by name.

Shapes: N images of a split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mntrain.data.classes.choice import LEFT_OUT, choose_classes
from mntrain.data.examples import IndexArray
from mntrain.data.hugging_face import datasets
from mntrain.data.image_files.columns import is_text
from mntrain.data.image_files.opened import Place
from mntrain.data.image_files.rows import ImageRows
from mntrain.data.labels import check_in_range, class_name, listing, number_names
from mntrain.errors import DataError

_Kind = Literal["class labels", "text", "whole numbers without names"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _PartLabels:
    """Labels of one file, int64 [N], as positions in its own ``names``."""

    values: IndexArray
    names: tuple[str, ...]
    kind: _Kind


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassLabels:
    """Labels of every split.

    Args:
        labels: split → int64 [N], positions in ``names``, or ``LEFT_OUT``.
        names: of the classes.
        left_out: names of the classes that ``data.classes`` leaves out.
    """

    labels: Mapping[str, IndexArray]
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def read_labels(place: Place, splits: Mapping[str, Sequence[ImageRows]], label: str) -> ClassLabels:
    """Read the column ``label`` of every split, and the class names: those of the train split, or of all.

    Names come from the schema, in its order; text labels are their own names, sorted; whole numbers without names are
    named by their text, in the order of numbers.

    Args:
        place: for training, only classes of the train split are known; otherwise those of every split. Its
            ``data.classes`` may leave some out.
        splits: rows of each split.
        label: name of the column.

    Raises:
        DataError: labels are missing, negative or out of range, or a split has a class that the train split lacks.
        ConfigError: ``data.classes`` does not fit.
    """
    where = place.where
    parts = {split: _read_split(rows, label, f"{where}, {split} split") for split, rows in splits.items()}
    first = "train" if "train" in parts else next(iter(parts))
    every = _vocabulary([part for found in parts.values() for part in found])
    patterns = place.config.class_patterns
    chosen = None
    if patterns is not None:
        chosen = choose_classes(every, patterns, where=where, least=2 if place.trained else 1)
    known = _vocabulary(parts[first]) if place.trained else every
    names = known if chosen is None else tuple(name for name in known if name in chosen)
    labels = {}
    for split, found in parts.items():
        values = [_by_name(part, names) for part in found]
        labels[split] = np.concatenate(values) if len(values) > 1 else values[0]
        expected = names if chosen is None else (*names, *(name for name in every if name not in chosen))
        kinds = [part.kind for part in parts[first]]
        _check_known(labels[split], found, expected, split=split, kinds=kinds, where=where)
    return ClassLabels(
        labels=labels,
        names=names,
        left_out=() if chosen is None else tuple(name for name in every if name not in chosen),
    )


def missing_classes(labels: Mapping[str, IndexArray], names: Sequence[str]) -> str:
    """Say which classes have no image in a split; empty where all have."""
    told = []
    for split, values in labels.items():
        absent = np.setdiff1d(np.arange(len(names)), values)
        if len(absent):
            holds = "no image of" if split == "all" else f"in {split} there is no image of"
            told.append(f"{holds} {listing([repr(names[number]) for number in absent])}")
    return "; ".join(told)


def _read_split(rows: Sequence[ImageRows], label: str, where: str) -> list[_PartLabels]:
    found, start = [], 0
    for part in rows:
        column = part.column(label)
        if column.null_count:
            first = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise DataError(
                f"{where}: image {start + first} has no label (None), and {column.null_count} in all; label or remove "
                "those images."
            )
        found.append(_read_part(column, part.features[label], f"{where} ({part.name})" if len(rows) > 1 else where))
        start += len(part)
    return found


def _read_part(column: pa.ChunkedArray, feature: Any, where: str) -> _PartLabels:
    if isinstance(feature, datasets.ClassLabel):
        values = column.to_numpy().astype(np.int64)
        names = tuple(map(class_name, feature.names))
        check_in_range(values, len(names), where=where)
        return _PartLabels(values=values, names=names, kind="class labels")
    if is_text(feature):
        texts = [class_name(text) for text in column.to_pylist()]
        names = tuple(sorted(set(texts)))
        position = {name: number for number, name in enumerate(names)}
        return _PartLabels(
            values=np.array([position[text] for text in texts], dtype=np.int64), names=names, kind="text"
        )
    # Unsafe only for uint64 beyond int64, which wraps to a negative label and is reported as one.
    numbers = pc.cast(column, pa.int64(), safe=False).to_numpy()
    distinct, values = np.unique(numbers, return_inverse=True)
    return _PartLabels(
        values=values.astype(np.int64),
        names=number_names(distinct, where=where),
        kind="whole numbers without names",
    )


def _vocabulary(parts: Sequence[_PartLabels]) -> tuple[str, ...]:
    ordered = dict.fromkeys(name for part in parts if part.kind == "class labels" for name in part.names)
    others = {name for part in parts for name in part.names} - set(ordered)
    kinds = {part.kind for part in parts}
    numeric = kinds == {"whole numbers without names"}
    return (*ordered, *sorted(others, key=int if numeric else None))


def _by_name(part: _PartLabels, names: tuple[str, ...]) -> IndexArray:
    """Turn positions in the part's names into positions in ``names``; ``LEFT_OUT`` for those that are not there."""
    if part.names == names:
        return part.values
    position = {name: number for number, name in enumerate(names)}
    table = np.array([position.get(name, LEFT_OUT) for name in part.names], dtype=np.int64)
    return table[part.values] if len(part.values) else part.values


def _check_known(
    values: IndexArray,
    parts: Sequence[_PartLabels],
    names: Sequence[str],
    *,
    split: str,
    kinds: Sequence[_Kind],
    where: str,
) -> None:
    if not (values < 0).any():
        return
    known = set(names)
    counts = {
        name: int(count)
        for part in parts
        for name, count in zip(part.names, np.bincount(part.values, minlength=len(part.names)), strict=True)
        if count and name not in known
    }
    own = {part.kind for part in parts}
    differing = (
        f" Labels of the {split} split are {listing(sorted(own))}, those of the train split "
        f"{listing(sorted(set(kinds)))}: {listing([repr(name) for name in names])}."
        if own != set(kinds)
        else ""
    )
    if not counts:
        return
    raise DataError(
        f"{where}: the {split} split holds classes that the train split does not have: "
        f"{listing([f'{name!r} ({count} images)' for name, count in counts.items()])}.{differing} Name the classes "
        "alike, add training images of each, or remove those images."
    )
