"""Rules about several inputs of a model, or about their values, that a request is checked against before any engine.

Shapes are those of requests: with the batch dimension where the model has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mnserve.errors import InvalidRequestError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class SharedAxis:
    """Dimensions of inputs that have one size, since the model file gives them one name.

    Attributes:
        name: Name in the model file.
        places: Input and position of each dimension, in the model's order.
    """

    name: str
    places: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class RowLimit:
    """Most rows that some inputs of a request have together.

    Attributes:
        inputs: Their names; their first dimensions count.
        most: The limit.
    """

    inputs: tuple[str, ...]
    most: int


@dataclass(frozen=True, kw_only=True)
class ValueRange:
    """Values that an input of whole numbers may have.

    Attributes:
        input: Its name.
        least: Smallest value.
        below: What all values are below: a number, or the name of an input whose rows are counted.
    """

    input: str
    least: int
    below: int | str


@dataclass(frozen=True, kw_only=True)
class InputRules:
    """All such rules of a model; none for most models.

    Attributes:
        shared_axes: Dimensions of one size.
        row_limit: Most rows; None without a limit.
        value_ranges: Ranges of values.
    """

    shared_axes: tuple[SharedAxis, ...] = ()
    row_limit: RowLimit | None = None
    value_ranges: tuple[ValueRange, ...] = ()

    @property
    def about_shapes(self) -> bool:
        """True if there is anything to check about shapes."""
        return bool(self.shared_axes) or self.row_limit is not None

    def check_shapes(self, model: str, shapes: Mapping[str, Sequence[int]]) -> None:
        """Checks the shapes of a request.

        Args:
            model: Name of the model, for messages.
            shapes: Input name -> shape; optional inputs may be missing.

        Raises:
            InvalidRequestError: Sizes differ that are one, or there are too many rows.
        """
        for axis in self.shared_axes:
            _check_axis(axis, model, shapes)
        if self.row_limit is not None:
            _check_rows(self.row_limit, model, shapes)

    def check_values(self, model: str, feeds: Mapping[str, Array]) -> None:
        """Checks the values of a request.

        Args:
            model: Name of the model, for messages.
            feeds: Input name -> array; optional inputs may be missing.

        Raises:
            InvalidRequestError: A value is out of its range.
        """
        for allowed in self.value_ranges:
            if allowed.input in feeds:
                _check_range(allowed, model, feeds)


def _check_axis(axis: SharedAxis, model: str, shapes: Mapping[str, Sequence[int]]) -> None:
    present = [(name, place, shapes[name]) for name, place in axis.places if name in shapes]
    sizes = [(name, place, shape[place]) for name, place, shape in present if place < len(shape)]
    for name, place, size in sizes[1:]:
        first, first_place, expected = sizes[0]
        if size != expected:
            raise InvalidRequestError(
                f"model '{model}': input '{name}' has size {size} in dimension {place}, but input '{first}' has size "
                f"{expected} in dimension {first_place}; the model file calls both '{axis.name[:40]}', so make them "
                "equal"
            )


def _check_rows(limit: RowLimit, model: str, shapes: Mapping[str, Sequence[int]]) -> None:
    counts = {name: shapes[name][0] for name in limit.inputs if shapes.get(name)}
    if sum(counts.values()) > limit.most:
        rows = " and ".join(f"{count} in input '{name}'" for name, count in counts.items())
        raise InvalidRequestError(
            f"model '{model}': the request has {rows}, {sum(counts.values())} rows together, expected at most "
            f"{limit.most} (mn.row_limit in config.pbtxt); send fewer, or raise the limit"
        )


def _check_range(allowed: ValueRange, model: str, feeds: Mapping[str, Array]) -> None:
    values = feeds[allowed.input]
    if not values.size:
        return
    below, reason = allowed.below, ""
    if isinstance(below, str):
        if below not in feeds or not feeds[below].ndim:
            return
        below, reason = len(feeds[below]), f", below the rows of input '{below}'"
    wrong = (values < allowed.least) | (values >= below)
    if wrong.any():
        index = tuple(int(place) for place in np.unravel_index(int(np.argmax(wrong)), values.shape))
        raise InvalidRequestError(
            f"model '{model}': input '{allowed.input}' has the value {values[index]} at index {list(index)}, expected "
            f"values from {allowed.least} to {below - 1}{reason}; correct it"
        )
