"""Find equal examples within and across splits by a digest of each.

Shapes: N examples of a split.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.data.blockwise.row_blocks import row_blocks
from mntrain.data.examples import IndexArray
from mntrain.data.split_record import SPLITS

KeyArray = NDArray[np.uint64]
Pair = tuple[int, int]

_PAIRS = 12
_BYTES = 8  # two of a million different examples share a digest of 64 bits with a chance of 3e-8


@dataclass(frozen=True, kw_only=True)
class SharedExamples:
    """Examples that two splits have in common.

    Args:
        first: split that is looked in.
        second: split whose examples are counted.
        count: examples of ``second`` that are equal to one of ``first``.
        pairs: positions in ``first`` and ``second`` of the first few of them, one for each distinct example.
    """

    first: str
    second: str
    count: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class Contradictions:
    """Training examples with equal inputs and different classes.

    Args:
        count: examples in such groups.
        pairs: positions in ``train`` of two that differ, for the first few groups.
    """

    count: int
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Equal examples of a set.

    Args:
        within: split → examples that are equal to an earlier one of the same split.
        across: pairs of splits that share examples; those that share none are left out.
        contradictions: within the training examples.
    """

    within: Mapping[str, int]
    across: tuple[SharedExamples, ...]
    contradictions: Contradictions


def find_duplicates(
    keys: Mapping[str, KeyArray], *, inputs: KeyArray | None = None, labels: IndexArray | None = None
) -> Duplicates:
    """Find equal examples by their keys.

    Args:
        keys: split → keys of its examples, from :func:`example_keys`.
        inputs: keys of the training inputs without their targets; None where ``keys`` hold no targets.
        labels: training labels, int64 [N]; None where targets are values, which contradict nothing.
    """
    contradictions = Contradictions(count=0, pairs=())
    if labels is not None:
        contradictions = _contradictions(keys["train"] if inputs is None else inputs, labels)
    pairs = (("train", "validation"), ("train", "test"), ("validation", "test"))
    shared = (_shared(keys, first, second) for first, second in pairs)
    return Duplicates(
        within={name: len(keys[name]) - len(np.unique(keys[name])) for name in SPLITS},
        across=tuple(found for found in shared if found.count),
        contradictions=contradictions,
    )


def example_keys(*arrays: NDArray[Any]) -> KeyArray:
    """Digest each example of ``arrays`` [N, …] that belong together, as uint64 [N]; equal values give equal keys.

    NaN counts as equal to NaN, and 0 to -0.
    """
    blocks = (_block_digests([array[block] for array in arrays]) for block in row_blocks(arrays[0]))
    return np.frombuffer(b"".join(blocks), dtype=np.uint64)


def _block_digests(arrays: list[NDArray[Any]]) -> bytes:
    count = len(arrays[0])
    columns = [_exact(array).reshape(count, -1).view(np.uint8) for array in arrays]
    rows = columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
    return b"".join(_digests(memoryview(row) for row in rows))


def _digests(rows: Iterable[memoryview]) -> Iterable[bytes]:
    return (hashlib.blake2b(row, digest_size=_BYTES).digest() for row in rows)


def _exact(array: NDArray[Any]) -> NDArray[Any]:
    """Give equal values equal bytes."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array + np.array(0, array.dtype))
    return np.ascontiguousarray(array)


def _shared(keys: Mapping[str, KeyArray], first: str, second: str) -> SharedExamples:
    known, places = np.unique(keys[first], return_index=True)
    at = np.minimum(np.searchsorted(known, keys[second]), len(known) - 1)
    positions = np.flatnonzero(known[at] == keys[second])
    # One pair for each distinct example: a blank image may occur a hundred times.
    _, distinct = np.unique(keys[second][positions], return_index=True)
    shown = positions[np.sort(distinct)[:_PAIRS]]
    return SharedExamples(
        first=first,
        second=second,
        count=len(positions),
        pairs=tuple((int(places[at[position]]), int(position)) for position in shown),
    )


def _contradictions(keys: KeyArray, labels: IndexArray) -> Contradictions:
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
    ordered = labels[order]
    lowest, highest = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
    sizes = np.diff(np.r_[starts, len(order)])
    wrong = np.flatnonzero(lowest != highest)
    pairs = []
    for group in wrong:
        members = order[starts[group] : starts[group] + sizes[group]]
        pairs.append((int(members[0]), int(members[np.argmax(labels[members] != labels[members[0]])])))
        if len(pairs) == _PAIRS:
            break
    return Contradictions(count=int(sizes[wrong].sum()), pairs=tuple(sorted(pairs)))
