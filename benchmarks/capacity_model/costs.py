"""Costs of one call and of one run, as they are measured on a machine. All times are in seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


class CostsError(Exception):
    """A file has no costs that could be simulated."""


@dataclass(frozen=True)
class Work:
    """CPU of one thread that takes what waits for it, turn by turn.

    Args:
        turn: for each turn, whatever waits.
        call: for each call, in all its turns together.
    """

    turn: float
    call: float


@dataclass(frozen=True)
class Runs:
    """Durations of runs of the engine.

    Args:
        rows: sizes of batches, rising.
        seconds: duration of a run of each size.
        on_core: a run takes a core, as opposed to a GPU.
        computing: share of each duration that the engine itself computes, which the server's rules look at.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    on_core: bool = True
    computing: tuple[float, ...] = ()

    def of(self, rows: int) -> float:
        """Duration of a run: between the sizes on a line, beyond them on the last one."""
        return max(0.0, self._between(self.seconds, rows))

    def share_of(self, rows: int) -> float:
        """Share of a run's duration that the engine itself computes."""
        return min(1.0, max(0.0, self._between(self.computing, rows))) if self.computing else 1.0

    def _between(self, values: Sequence[float], rows: int) -> float:
        if len(self.rows) == 1:
            return values[0]
        upper = max(1, next((index for index, size in enumerate(self.rows) if size >= rows), len(self.rows) - 1))
        (x0, x1), (y0, y1) = self.rows[upper - 1 : upper + 1], values[upper - 1 : upper + 1]
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)

    @classmethod
    def line(cls, first: float, more: float, *, on_core: bool = True) -> Runs:
        """Runs that take `first` seconds for one row, and `more` for each further one."""
        return cls((1, 2), (first, first + more), on_core)


@dataclass(frozen=True)
class Costs:
    """What the parts of a server take.

    Args:
        client: the thread of the load generator, where it runs on the same cores.
        transport: gRPC's own threads of a front end, beside its event loop.
        front_end: event loop of a front end.
        engine: event loop of the engine process.
        wake: time until a thread that slept runs, in which it takes no core.
        runs: durations of the runs.
    """

    client: Work
    transport: Work
    front_end: Work
    engine: Work
    wake: float
    runs: Runs

    def with_runs(self, runs: Runs) -> Costs:
        """The same server with another model."""
        return replace(self, runs=runs)

    def to_json(self) -> dict[str, Any]:
        """Figures for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Costs:
        """Read what :meth:`to_json` gave.

        Raises:
            CostsError: something is missing, or is no time.
        """
        try:
            parts = {name: Work(**_times(record[name])) for name in _PARTS}
            runs = record["runs"]
            rows, seconds = tuple(map(int, runs["rows"])), tuple(map(float, runs["seconds"]))
            if not rows or len(rows) != len(seconds) or list(rows) != sorted(set(rows)) or min(*rows, *seconds) < 0:
                raise ValueError("rows have to rise, with a duration for each")
            computing = tuple(map(float, runs["computing"]))
            if len(computing) not in (0, len(rows)):
                raise ValueError("a share of computing is missing")
            read = Runs(rows, seconds, bool(runs["on_core"]), computing)
            return cls(**parts, wake=_times({"wake": record["wake"]})["wake"], runs=read)
        except (KeyError, TypeError, ValueError) as error:
            raise CostsError(f"these are no costs of a server ({type(error).__name__}: {error})") from error


_PARTS = ("client", "transport", "front_end", "engine")


def _times(values: Mapping[str, Any]) -> dict[str, float]:
    read = {name: float(value) for name, value in values.items()}
    if not all(0 <= value < 60 for value in read.values()):
        raise ValueError(f"{read} are not times from 0 to 60 s")
    return read


def read_costs(file: Path) -> Costs:
    """Read the costs of a file that `--measure` has written.

    Raises:
        CostsError: the file has none.
    """
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        return Costs.from_json(record["costs"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CostsError(f"{file} has no costs of a server: {error}; write it with --measure MODEL") from error
