"""Answers of models of rows: values of the targets, or a class, and perhaps the neighbors that shaped them.

Shapes: B rows in a batch, T targets, C classes, K neighbors, the most important first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mnserve.errors import RowModelError
from mnserve.predicting.answers import AnswerReader
from mnserve.predicting.explanations import stated_finding
from mnserve.predicting.row_class_answers import RowClassAnswers
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.row_layout import TableLayout

_VALUE: Final = "value"
ROW_EXPLANATION: Final = ("neighbor_indices", "neighbor_weights", "neighbor_values", "unadapted_value")
"""Outputs of a model of values that can explain its answers."""


class RowAnswer(Protocol):
    """Answer to one row."""

    def cells(self) -> list[str]:
        """Lists the texts of the columns that are added to the row."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        ...


class RowAnswers(Protocol):
    """Reads the answers of one model."""

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs to request."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns that are added to a table."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions made for the answers, as sentences for the user."""
        ...

    def read(self, outputs: Mapping[str, NDArray[Any]], count: int) -> Sequence[RowAnswer]:
        """Reads one answer for each of ``count`` rows."""
        ...


def answers_of(
    config: ModelConfig, layout: TableLayout, labels: Sequence[str], *, top: int, explain: bool
) -> RowAnswers:
    """Chooses how the answers of a model are read: values where it has the output ``value``, else classes.

    Raises:
        ImageModelError, RowModelError: The model lacks the outputs for that.
    """
    if estimates_values(config):
        return RowValueAnswers(config, layout, explain=explain)
    return RowClassAnswers(AnswerReader(config, labels, explain=explain), layout, top)


def estimates_values(config: ModelConfig) -> bool:
    """Returns True for a model that estimates values, False for one that tells classes apart."""
    return any(output.name == _VALUE for output in config.output)


@dataclass(frozen=True, kw_only=True)
class ValueNeighbor:
    """An entry of a regressor's dictionary, with its share of the attention and its value of each target."""

    entry: int
    weight: float
    values: tuple[np.float32, ...]


@dataclass(frozen=True, kw_only=True)
class RowValueAnswer:
    """Values of one row, in the targets' own units.

    Attributes:
        targets: Names of the targets.
        values: Value of each.
        unadapted: Value of each without adaptation; None where no explanation was requested.
        neighbors: Neighbors that shaped the values.
    """

    targets: tuple[str, ...]
    values: tuple[np.float32, ...]
    unadapted: tuple[np.float32, ...] | None = None
    neighbors: tuple[ValueNeighbor, ...] = ()

    def cells(self) -> list[str]:
        """Lists values; then values without adaptation and the neighbors, if they were requested."""
        if self.unadapted is None:
            return list(map(str, self.values))
        return [*map(str, self.values), *map(str, self.unadapted), "; ".join(map(_neighbor, self.neighbors))]

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        plain: dict[str, Any] = {"values": self._named(self.values)}
        if self.unadapted is None:
            return plain
        neighbors = [
            {"entry": item.entry, "weight": _plain(item.weight), "values": self._named(item.values)}
            for item in self.neighbors
        ]
        return plain | {"explanation": {"neighbors": neighbors, "unadapted": self._named(self.unadapted)}}

    def _named(self, values: Sequence[np.float32]) -> dict[str, float]:
        return {name: _plain(value) for name, value in zip(self.targets, values, strict=True)}


class RowValueAnswers:
    """Reads the values of a regressor.

    Raises:
        RowModelError: The model lacks the outputs of an explanation.
    """

    def __init__(self, config: ModelConfig, layout: TableLayout, *, explain: bool) -> None:
        names = {output.name for output in config.output}
        if explain and not names.issuperset(ROW_EXPLANATION):
            raise RowModelError(
                f"model '{config.name}' does not tell its neighbors; leave out --explain, or export it again with "
                "mnexport --explain K"
            )
        self._model = config.name
        self._explain = explain
        self._targets = layout.targets
        finding = stated_finding(config) if explain else None
        self.notes: tuple[str, ...] = () if finding is None else (finding,)
        """What the exporter found about the explanations of the model."""

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs to request."""
        return [_VALUE, *(ROW_EXPLANATION if self._explain else ())]

    @property
    def columns(self) -> list[str]:
        """One column a target; with an explanation as many again, and one of neighbors."""
        columns = [f"predicted_{name}" for name in self._targets]
        if self._explain:
            columns += [*(f"unadapted_{name}" for name in self._targets), "neighbors"]
        return columns

    def read(self, outputs: Mapping[str, NDArray[Any]], count: int) -> list[RowValueAnswer]:
        """Reads [B, T] values, and an explanation where there is one.

        Raises:
            RowModelError: An output has another shape, or a value that is not finite.
        """
        targets = len(self._targets)
        values = self._checked(outputs, _VALUE, (count, targets))
        if not self._explain:
            return [RowValueAnswer(targets=self._targets, values=tuple(row)) for row in values]
        neighbors = outputs[ROW_EXPLANATION[0]].shape[-1]
        indices, weights = (self._checked(outputs, name, (count, neighbors)) for name in ROW_EXPLANATION[:2])
        of_entries = (count, neighbors) if targets == 1 else (count, neighbors, targets)
        entry_values = self._checked(outputs, ROW_EXPLANATION[2], of_entries).reshape(count, neighbors, targets)
        unadapted = self._checked(outputs, ROW_EXPLANATION[3], (count, targets))
        return [
            RowValueAnswer(
                targets=self._targets,
                values=tuple(values[row]),
                unadapted=tuple(unadapted[row]),
                neighbors=tuple(
                    ValueNeighbor(entry=int(entry), weight=float(weight), values=tuple(of_entry))
                    for entry, weight, of_entry in zip(indices[row], weights[row], entry_values[row], strict=True)
                ),
            )
            for row in range(count)
        ]

    def _checked(self, outputs: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = outputs[name]
        if array.shape != shape or array.dtype.kind not in "fiu":
            raise RowModelError(
                f"model '{self._model}' answered with '{name}' of {array.dtype} {list(array.shape)}; expected numbers "
                f"of shape {list(shape)}, so call it through a client instead"
            )
        if not np.isfinite(array).all():
            raise RowModelError(
                f"model '{self._model}' answered with values in '{name}' that are NaN or infinite; check the row"
            )
        return array


def _plain(value: np.float32 | float) -> float:
    """Returns the shortest number that is the same in single precision."""
    return float(str(np.float32(value)))


def _neighbor(neighbor: ValueNeighbor) -> str:
    return f"#{neighbor.entry} {neighbor.weight:.1%} {' '.join(map(str, neighbor.values))}"
