"""Runs of a model while it is loaded: each is announced, watched, and kept within bounds of time and memory.

Shapes: feeds are [B, ...], or [...] for a model without a batch dimension.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mnserve.codec.signature import RequestSignature
from mnserve.engines.base import Engine
from mnserve.engines.memory import available_bytes, give_back_free_memory, resident_bytes
from mnserve.execution.run_watch import RunWatch
from mnserve.models.thread_choice.run_costs import RunCosts

_log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]

_WORTH_A_LINE: Final = 2**26
"""Expected memory of a run, in bytes, from which on it has a line of its own and is compared with what is free."""

_TINY_SECONDS: Final = 1e-4
"""Time of a row of a model for which all evidence is looked for: it has some 200 rows, which take 20 ms at most."""
_CHEAP_SECONDS: Final = 0.1
_CHEAP_BYTES: Final = 2**26
"""Most time and memory of a batch that is run although nobody configured its size."""


@dataclass(frozen=True, kw_only=True)
class TrialLimits:
    """Bounds of the trial runs of one engine.

    Attributes:
        seconds: Time of all runs together. A run that would probably end later is not begun.
        input_bytes: Largest inputs of one run. By default a message has a quarter of this at most.
        memory_share: Largest part of the free memory that a run may probably take.
        memory_bytes: Most bytes that a run may probably take.
        thorough_seconds: Time after which no further evidence is looked for, once there is some.
    """

    seconds: float = 5.0
    thorough_seconds: float = 1.0
    input_bytes: int = 2**28
    memory_share: float = 0.5
    memory_bytes: float = math.inf


class TrialRuns:
    """Runs an engine, and measures what a row costs.

    Args:
        engine: The engine.
        rules: Rules for requests.
        limits: Bounds.
        watch: Told of every run.
    """

    def __init__(self, engine: Engine, rules: RequestSignature, limits: TrialLimits, watch: RunWatch) -> None:
        self.rules = rules
        self.rows: list[int] = []
        """Batch sizes that ran, ascending."""
        self._engine = engine
        self._limits = limits
        self._watch = watch
        self._started = time.monotonic()
        self._resident = resident_bytes()
        self._row_seconds = 0.0
        self._quickest_row = math.inf
        self._quickest: dict[int, float] = {}
        self._announced = False
        # A model in two files computes its default outputs in another engine than all of them.
        self._output_sets = sorted({tuple(rules.output_rules), tuple(rules.default_outputs)}, key=len)

    @property
    def seconds(self) -> float:
        """Seconds since the first run could begin."""
        return time.monotonic() - self._started

    @property
    def row_bytes(self) -> float:
        """Memory that a row takes, measured by what the largest run has added to the process; 0 before a run."""
        return max(0, resident_bytes() - self._resident) / max(self.rows, default=1) if self.rows else 0.0

    @property
    def costs(self) -> RunCosts | None:
        """The quickest run of one row and of the largest batch, for the smaller set of outputs; None before a run."""
        if 1 not in self._quickest:
            return None
        return RunCosts(one=self._quickest[1], most=self._quickest[self.rows[-1]], rows=self.rows[-1])

    def run(self, feeds: Tensors, rows: int) -> Tensors:
        """Runs the model for each set of outputs that requests lead to.

        Args:
            feeds: The inputs.
            rows: B, or 1 for a model without a batch dimension.

        Returns:
            The outputs, those of the smaller set first.

        Raises:
            EngineRunError: The model cannot run on these inputs.
            MemoryError: There is no memory.
        """
        self._announce(feeds, rows)
        answers: dict[str, Array] = {}
        started = time.monotonic()
        for names in self._output_sets:
            with self._watch.running():
                arrays = self._engine.run(feeds, names)
            if not answers:
                self._quickest[rows] = min(self._quickest.get(rows, math.inf), time.monotonic() - started)
            for name, array in zip(names, arrays, strict=True):
                answers.setdefault(name, array)
        self._row_seconds = (time.monotonic() - started) / rows
        self._quickest_row = min(self._quickest_row, self._row_seconds)
        if rows not in self.rows:
            self.rows = sorted([*self.rows, rows])
        return answers

    def has_time(self, rows: int) -> bool:
        """Returns True if there is time left for runs that are not needed, of that many rows together.

        There is for a tiny model, whatever time is left: many models or a busy machine make no proof weaker.
        """
        if self._quickest_row <= _TINY_SECONDS:
            return True
        return self.seconds + self._row_seconds * rows <= self._limits.thorough_seconds

    def trim(self, feeds: Tensors) -> None:
        """Runs one more row, after which the memory of larger batches is given back."""
        self._engine.trim()
        self.run(feeds, 1)
        give_back_free_memory()

    def is_cheap(self, rows: int) -> bool:
        """Returns True if a batch would probably cost next to nothing."""
        return self._row_seconds * rows <= _CHEAP_SECONDS and self.row_bytes * rows <= _CHEAP_BYTES

    def obstacle(self, rows: int, largest: int) -> str | None:
        """Describes why further runs would go too far, as a clause; None where there is room.

        Args:
            rows: Rows of all further runs together.
            largest: Rows of the largest of them.
        """
        seconds = self.seconds + self._row_seconds * rows
        if seconds > self._limits.seconds:
            return f"a row takes {self._row_seconds:.2g} s, and the time for trying is {self._limits.seconds:g} s"
        expected = self.row_bytes * largest
        if expected < _WORTH_A_LINE:  # to ask the system costs more than most runs
            return None
        if expected > self._limits.memory_bytes:
            most = self._limits.memory_bytes / 2**20
            return f"a row takes about {self.row_bytes / 2**20:.0f} MiB, and {most:.0f} MiB may be taken for trying"
        free = available_bytes()
        if free is not None and expected > free * self._limits.memory_share:
            return f"a row takes about {self.row_bytes / 2**20:.0f} MiB, and {free / 2**20:.0f} MiB of memory are free"
        return None

    def input_obstacle(self, nbytes: int) -> str | None:
        """Describes why inputs are too large to be tried, as a clause; None where they are not."""
        if nbytes <= self._limits.input_bytes:
            return None
        return f"its inputs alone have {nbytes} bytes, more than {self._limits.input_bytes}"

    def _announce(self, feeds: Tensors, rows: int) -> None:
        """Logs what is about to run: if the system ends the process for its memory, this is the last word."""
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in list(feeds.items())[:8])
        level = logging.DEBUG if self._announced and self.row_bytes * rows < _WORTH_A_LINE else logging.INFO
        self._announced = True
        _log.log(level, "model '%s': warm-up runs %s", self.rules.model, shapes or "without inputs")
