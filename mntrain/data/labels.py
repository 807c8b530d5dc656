"""Checks of labels and class names that every source shares: labels are whole numbers 0 to C - 1."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from mntrain.data.examples import IndexArray
from mntrain.errors import DataError

_SHOWN = 8
_ENDS = 4


def listing(values: Sequence[object]) -> str:
    """Write the first few of ``values`` for a message, and the number of those left out."""
    shown = ", ".join(str(value) for value in values[:_SHOWN])
    return shown if len(values) <= _SHOWN else f"{shown} and {len(values) - _SHOWN} more"


def ends(names: Sequence[str]) -> str:
    """List the first and the last names for a message, and the number of all."""
    if len(names) <= 2 * _ENDS:
        return ", ".join(names)
    return f"{', '.join(names[:_ENDS])} … {', '.join(names[-_ENDS:])} ({len(names)} in all)"


def class_name(text: str) -> str:
    """Return ``text`` as classes are compared: in Unicode's composed form, without spaces around it."""
    return unicodedata.normalize("NFC", text).strip(" ")


def number_names(numbers: IndexArray, *, where: str) -> tuple[str, ...]:
    """Name the classes of whole numbers without names (int64 [C], ascending, all different) by their own text.

    Raises:
        DataError: a number is negative.
    """
    negative = [int(number) for number in numbers if number < 0]
    if negative:
        raise DataError(
            f"{where} holds negative labels ({listing(negative)}), which often mark images without a label; "
            "label or remove those images."
        )
    return tuple(str(number) for number in numbers)


def check_in_range(labels: IndexArray, classes: int, *, where: str) -> None:
    """Check that the labels of a source with named classes are 0 to ``classes`` - 1.

    Raises:
        DataError: a label is outside; the message names it, the first image that has it, and the number of all.
    """
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        value = int(labels[wrong[0]])
        meaning = ", which often marks an image without a label" if value == -1 else ""
        raise DataError(
            f"{where}: image {int(wrong[0])} has label {value}{meaning}; {len(wrong)} label(s) are outside "
            f"0 to {classes - 1} ({classes} classes). Correct or remove those images."
        )


def check_names(names: Sequence[str]) -> None:
    """Check that class names tell classes apart.

    Raises:
        DataError: fewer than two, two alike, a blank one, or one that is not valid Unicode.
    """
    if len(names) < 2:
        raise DataError(f"The data has {len(names)} class(es) {list(names)}; classification needs at least 2.")
    for name in names:
        if not name.strip() or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DataError(f"A class is called {name!r}; give every class a name of printable text.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"Several classes are called {twice[0]!r}; give every class a name of its own.")


def check_lines(names: Sequence[str]) -> None:
    """Check that class names of new data fit on a line each; artifacts of earlier versions may have others.

    Raises:
        DataError: a name has a line break.
    """
    for name in names:
        if name.splitlines() != [name]:
            raise DataError(
                f"A class is called {name!r}, with a line break, and names of classes are written one a line; give it "
                "a name of one line."
            )
