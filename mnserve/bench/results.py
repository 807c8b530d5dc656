"""Result of a measurement, with everything needed to judge and repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mnserve.bench.machine import Machine
from mnserve.bench.settings import BenchSettings
from mnserve.bench.statistics import Latency, Slot, Spread, latency, ratios, spread

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class ModelNote:
    """Description of a timed model."""

    name: str
    version: str
    """Version that was timed; empty for a file outside of a repository."""
    file: str | None
    """Name of the file that ran, with its path outside of a repository; None for a model on a server, which does not
    tell."""
    inputs: dict[str, tuple[str, tuple[int, ...]]]
    """Input name -> protocol type and shape of one row."""
    parameters: dict[str, str]
    """Parameters of the model that describe it (``mn.family``, ``mn.form``)."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Latency of the model / latency of the other model, round by round."""

    rounds: tuple[float, ...]
    """The ratio of the two median latencies in each round."""
    spread: Spread
    """Median, quartiles and extremes of ``rounds``."""


@dataclass(frozen=True, kw_only=True)
class BatchSizeResult:
    """Result of one batch size."""

    batch: int
    model: Latency
    against: Latency | None
    ratio: Ratio | None


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """Result of the whole measurement."""

    settings: BenchSettings
    machine: Machine
    threads: int | None
    """Threads of the engine within one operator; None for a server that was running before."""
    model: ModelNote
    against: ModelNote | None
    batches: tuple[BatchSizeResult, ...]
    notes: tuple[str, ...]
    """Notes for the reader, as sentences."""

    @property
    def path(self) -> str:
        """Path of a timed call: the engine alone, or gRPC."""
        if not self.settings.grpc:
            return "engine in process"
        callers = self.settings.concurrency
        return f"gRPC, {callers} caller{'s' * (callers != 1)}"

    @property
    def caption(self) -> str:
        """Machine, threads, path and amount of timing in one line."""
        threads = "threads unknown" if self.threads is None else f"{self.threads} thread{'s' * (self.threads != 1)}"
        amount = f"{self.settings.rounds} rounds, {self.settings.seconds:g} s a model and batch size"
        return f"{self.machine.caption}; {threads}; {self.path}; {amount}"

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; times in milliseconds, ratios without a unit."""
        return {
            "schema": SCHEMA,
            "settings": asdict(self.settings),
            "machine": self.machine.to_json(),
            "threads": self.threads,
            "path": self.path,
            "model": asdict(self.model),
            "against": None if self.against is None else asdict(self.against),
            "results": [asdict(batch) for batch in self.batches],
            "notes": list(self.notes),
        }


def summarise(batch: int, slots: Sequence[Sequence[Slot]]) -> BatchSizeResult:
    """Summarises the slots of one batch size.

    Args:
        batch: Rows of every call.
        slots: Slots of the model, and those of the other model if there is one.
    """
    first, *rest = slots
    if not rest:
        return BatchSizeResult(batch=batch, model=latency(first, batch), against=None, ratio=None)
    (second,) = rest
    rounds = ratios(first, second)
    return BatchSizeResult(
        batch=batch,
        model=latency(first, batch),
        against=latency(second, batch),
        ratio=Ratio(rounds=rounds, spread=spread(rounds)),
    )
