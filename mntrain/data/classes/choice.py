"""Choice of classes by name or by pattern (``data.classes``), alike for every source of images.

Shapes: N images of a split, M of them are kept.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from mntrain.data.account import Ignored
from mntrain.data.examples import IndexArray
from mntrain.data.labels import class_name, listing
from mntrain.errors import ConfigError, DataError

LEFT_OUT = -1
"""Label of an image whose class is left out."""

_NEAR = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptImages:
    """Images of the chosen classes.

    Args:
        positions: split → positions (int64 [M], ascending) of the images that stay.
        ignored: record of those that do not; empty where all stay.
    """

    positions: Mapping[str, IndexArray]
    ignored: tuple[Ignored, ...]


def choose_classes(names: Sequence[str], patterns: Sequence[str], *, where: str, least: int = 2) -> frozenset[str]:
    """Return the classes of ``names`` that ``patterns`` keep.

    A pattern is a name or a shell pattern, where ``*`` stands for any letters; a leading ``!`` leaves classes out.
    Patterns that all leave out keep the rest. A name with commas is one pattern where a class is called so.

    Args:
        names: of all classes of the data.
        patterns: as they were given.
        where: the data, for messages.
        least: number of classes that must be left.

    Raises:
        ConfigError: a pattern matches no class, or too few classes are left.
    """
    single = [part for pattern in patterns for part in _parts(class_name(pattern), names)]
    wanted: set[str] = set()
    unwanted: set[str] = set()
    excluding = 0
    for pattern in single:
        excludes = pattern.startswith("!") and pattern not in names
        found = _matches(pattern[1:] if excludes else pattern, names)
        if not found:
            raise ConfigError(
                f"data.classes has {pattern!r}, which matches none of the {len(names)} classes of {where}; "
                f"{_hint(pattern, names)} Correct it, or set data.classes to null to keep all classes."
            )
        excluding += excludes
        (unwanted if excludes else wanted).update(found)
    chosen = frozenset((set(names) if excluding == len(single) else wanted) - unwanted)
    if len(chosen) < least:
        left = [repr(name) for name in names if name in chosen]
        raise ConfigError(
            f"data.classes is {', '.join(single)!r}, which leaves {len(left)} class(es) "
            f"{f'({listing(left)}) ' if left else ''}of the {len(names)} of {where}; at least {least} must be left, so "
            "give a wider pattern."
        )
    return chosen


def keep_images(
    labels: Mapping[str, IndexArray], left_out: Sequence[str], *, where: str, trained: bool = True
) -> KeptImages:
    """Find the images that stay: those whose label is not :data:`LEFT_OUT`.

    Args:
        labels: split → int64 [N].
        left_out: names of the classes that are left out.
        where: the data, for messages.
        trained: every split must keep an image; otherwise one of them must, and those without are dropped.

    Raises:
        DataError: no image is left where one must be.
    """
    positions = {split: np.flatnonzero(values != LEFT_OUT) for split, values in labels.items()}
    empty = [split for split, kept in positions.items() if not len(kept)]
    if empty and (trained or len(empty) == len(positions)):
        raise DataError(
            f"{where}: data.classes keeps no image of the {empty[0]} split, and every split needs at least one; keep "
            "classes that are there, or set data.path to the files of one split, from which the others are drawn."
        )
    count = sum(len(values) for values in labels.values()) - sum(len(kept) for kept in positions.values())
    ignored = Ignored.of("images of classes that data.classes leaves out", list(left_out))
    return KeptImages(
        positions={split: kept for split, kept in positions.items() if len(kept)},
        ignored=(Ignored(reason=ignored.reason, count=count, examples=ignored.examples),) if count else (),
    )


def _parts(pattern: str, names: Sequence[str]) -> list[str]:
    """Part a text at its commas, unless it matches a class as it is."""
    if "," not in pattern or _matches(pattern.removeprefix("!"), names):
        return [pattern]
    return [part.strip() for part in pattern.split(",") if part.strip()]


def _matches(pattern: str, names: Sequence[str]) -> set[str]:
    """Classes that match; a class that is called like the pattern is the only one."""
    return {pattern} if pattern in names else {name for name in names if fnmatchcase(name, pattern)}


def _hint(pattern: str, names: Sequence[str]) -> str:
    """Name the classes whose beginning is nearest to the letters before the first ``*``, or the first few."""
    stem = pattern.removeprefix("!").partition("*")[0].casefold()
    beginnings = {name.casefold()[: len(stem)] if "*" in pattern else name.casefold(): name for name in names[::-1]}
    near = [beginnings[found] for found in difflib.get_close_matches(stem, beginnings, n=_NEAR, cutoff=0.6)]
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    return f"classes are {listing([repr(name) for name in names])}."
