"""Class numbers of new data as those of a model, matched by name.

Shapes: N examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mntrain.data.examples import IndexArray
from mntrain.data.labels import listing
from mntrain.errors import DataError


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchedClasses:
    """Labels in the numbers of a model.

    Args:
        kept: positions of the examples whose class the model knows, ascending, int64 [K].
        labels: their classes as numbers of the model, int64 [K].
        left_out: name of each class that the model does not know → its examples.
    """

    kept: IndexArray
    labels: IndexArray
    left_out: dict[str, int]


def match_classes(labels: IndexArray, names: Sequence[str], known: Sequence[str]) -> MatchedClasses:
    """Match classes by name; the order and number of names may differ.

    Args:
        labels: of the new data, int64 [N].
        names: class i of the new data is ``names[i]``.
        known: class i of the model is ``known[i]``.
    """
    numbers = {name: number for number, name in enumerate(known)}
    to_known = np.array([numbers.get(name, -1) for name in names], np.int64)
    matched = to_known[labels]
    kept = np.flatnonzero(matched >= 0).astype(np.int64)
    counts = np.bincount(labels, minlength=len(names))
    left_out = {name: int(count) for name, count in zip(names, counts, strict=True) if count and name not in numbers}
    return MatchedClasses(kept=kept, labels=matched[kept], left_out=left_out)


def refuse_unknown(left_out: dict[str, int], known: Sequence[str], *, where: str, noun: str) -> None:
    """Refuse data with classes that a model does not know.

    Raises:
        DataError: there are some; the message names them.
    """
    if left_out:
        unknown = listing([f"{name!r} ({count} {noun})" for name, count in left_out.items()])
        raise DataError(
            f"{where} holds classes that the model does not know: {unknown}. It knows "
            f"{listing([repr(name) for name in known])}. Rename them, or leave their {noun} out with --unknown-classes "
            "ignore."
        )


def refuse_none_known(left_out: dict[str, int], known: Sequence[str], *, where: str) -> None:
    """Refuse data of which nothing is left.

    Raises:
        DataError: always.
    """
    raise DataError(
        f"{where} holds no class that the model knows: it holds {listing([repr(name) for name in left_out])}, the "
        f"model knows {listing([repr(name) for name in known])}. Classes are matched by name; rename them."
    )
