"""Trial of a model with single rows and with batches of them, until it is known whether they may be joined.

Shapes: row i is [1, ...]; B joined rows are [B, ...].
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature
from mnserve.errors import MnServeError
from mnserve.models.joined_rows import (
    JoinedRows,
    Verdict,
    difference,
    every_second,
    first_changed,
    join,
    repeated,
    tell_apart,
    values_differ,
)
from mnserve.models.trial_runs import TrialRuns
from mnserve.models.warm_up_plan import WarmUp, WarmUpPlan

_log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]
MakeRow = Callable[[int], Tensors]
"""Number -> inputs of a row."""

JOINED: Final = (2, 8)
"""Numbers of rows that are joined to see whether they influence each other."""
_ODD: Final = (3, 5, 7)
"""Further numbers of rows that cost next to nothing: a model may take rows by twos, or treat some numbers otherwise."""
_STYLES: Final = 3
"""Styles of inputs that have to agree, since rows may influence each other for certain values only."""
_PROBE_BYTES: Final = 2**24
"""Largest request that serves as a probe."""
_COMPARED_ELEMENTS: Final = 2**22
"""Largest outputs of a larger warm-up batch that are compared with those of single rows."""


class _Kinds(NamedTuple):
    """Rows of the kind that is compared, of other kinds, and of kinds that the model need not take."""

    row: MakeRow
    others: Sequence[MakeRow]
    rare: Sequence[MakeRow]


class RowTrial:
    """Tries rows alone and joined, style by style, until enough is known."""

    def __init__(self, runs: TrialRuns, plan: WarmUpPlan) -> None:
        self.probe: MakeRow | None = None
        """Makes the inputs that the model answered first."""
        self._runs = runs
        self._rules = runs.rules
        self._plan = plan
        self._equal = 0
        self._joined = JoinedRows(verdict=Verdict.UNKNOWN, reason="nothing could be run")
        self._fault = ""
        self._stopped = ""
        self._shapes: dict[str, tuple[int, ...]] = {}

    @property
    def settled(self) -> bool:
        """True once further inputs would tell nothing new."""
        if self.probe is None:
            return bool(self._stopped)
        if self._rules.max_batch_size < 2 or self._stopped:
            return True
        return self._joined.verdict is Verdict.DIFFERENT or self._equal == _STYLES

    def stop(self, reason: str) -> None:
        """Gives up, as a run would go too far."""
        self._stopped = reason

    def note(self, row: MakeRow, outputs: Tensors) -> None:
        """Keeps row 0 as one that the model answered."""
        self.probe = row
        self._shapes = {name: array.shape for name, array in outputs.items()}

    def compare(self, row: MakeRow, others: Sequence[MakeRow] = (), rare: Sequence[MakeRow] = ()) -> None:
        """Runs rows alone and joined. Inputs that the model refuses tell nothing.

        Args:
            row: Number -> inputs of a row.
            others: The same for values of other kinds, beside which the answer to a row has to stay what it is.
            rare: The same for values that the model need not take; they are tried until one comparison is through.
        """
        first_time = self.probe is None
        try:
            rows, alone = [row(0)], [self._runs.run(row(0), 1)]
        except (MnServeError, MemoryError) as error:
            self._fault = self._fault or str(error) or "there is no memory for it"
            return
        if first_time:
            self.note(row, alone[0])
        if self._rules.max_batch_size < 2:
            return
        try:
            self._join(_Kinds(row, others, () if self._equal else rare), rows, alone)
        except (MnServeError, MemoryError, ValueError) as error:
            reason = str(error) or "there is no memory for it"
            if len(alone) == len(rows) >= 2:
                self._joined = JoinedRows(
                    verdict=Verdict.DIFFERENT, reason=f"joined rows fail, which are answered alone: {reason}"
                )
            return
        if first_time:
            self._grow(rows, alone)

    def _join(self, kinds: _Kinds, rows: list[Tensors], alone: list[Tensors]) -> None:
        for count in JOINED:
            if count > self._rules.max_batch_size:
                break
            further = count - len(rows) + 2 * count
            if len(rows) > 1 and not self._runs.has_time(further):
                break
            # The answers to rows alone, to the joined ones and to those beside others are in memory together.
            if reason := self._runs.obstacle(further, 2 * count):
                if len(rows) > 1:
                    break
                if not self._equal:
                    self.stop(reason)
                return
            while len(rows) < count:
                rows.append(kinds.row(len(rows)))
                alone.append(self._runs.run(rows[-1], 1))
            answer = self._runs.run(join(rows), count)
            fault = difference(alone, answer, self._rules)
            fault = fault or self._influence(rows, answer, (*kinds.others, kinds.row))
            if fault is not None:
                self._joined = JoinedRows(verdict=Verdict.DIFFERENT, reason=fault)
                return
        if self._joined.verdict is Verdict.DIFFERENT:
            return
        # Rare values come last, so that a model that takes long has been tried with as many rows as there is time for.
        if len(rows) > 1 and (fault := self._influence_of_rare(kinds, rows, answer)) is not None:
            self._joined = JoinedRows(verdict=Verdict.DIFFERENT, reason=fault)
            return
        if len(rows) > 1 and tell_apart(alone):
            self._equal += 1
            reason = "joined rows gave the answers that they give alone"
            self._joined = JoinedRows(verdict=Verdict.EQUAL, reason=reason)
        elif self._joined.verdict is Verdict.UNKNOWN:
            reason = "all made-up rows have the same answer, which shows nothing"
            self._joined = JoinedRows(verdict=Verdict.UNKNOWN, reason=reason)

    def _influence(self, rows: Sequence[Tensors], answer: Tensors, others: Sequence[MakeRow]) -> str | None:
        """Puts other rows beside every second one. With as many rows in the same places, not one bit may change."""
        count = len(rows)
        for kind, make in enumerate(others):
            if kind and not self._runs.has_time(count):
                break
            mixed = [rows[number] if number % 2 == 0 else make(2 * count + number) for number in range(count)]
            try:
                beside_others = self._runs.run(join(mixed), count)
            except (MnServeError, MemoryError, ValueError):
                continue  # values that the model does not take
            name = first_changed(every_second(answer), every_second(beside_others))
            if name is None:
                continue
            again = self._runs.run(join(rows), count)
            if first_changed(answer, again) is None:
                return f"output '{name}' of a row depends on the rows beside it"
            # Kernels whose answers vary from run to run are compared as those of other batch sizes are.
            if fault := values_differ(every_second(answer), every_second(beside_others), self._rules):
                return fault
        return None

    def _influence_of_rare(self, kinds: _Kinds, joined: Sequence[Tensors], answer: Tensors) -> str | None:
        """Puts rows of rare values beside others, and others beside them.

        Their answers alone are no measure: kernels differ in what becomes of NaN.
        """
        count = len(joined)
        if not kinds.rare or not self._runs.has_time(count):
            return None
        if fault := self._influence(joined, answer, kinds.rare):
            return fault
        for make in kinds.rare:
            if not self._runs.has_time(3 * count):
                break
            rows = [make(number) for number in range(count)]
            try:
                rare_answer = self._runs.run(join(rows), count)
            except (MnServeError, MemoryError, ValueError):
                continue
            if fault := self._influence(rows, rare_answer, (kinds.row,)):
                return fault
        return None

    def _grow(self, rows: Sequence[Tensors], alone: Sequence[Tensors]) -> None:
        """Runs the batches that the configuration allows, the largest last; others only where they cost little."""
        maximum = self._rules.max_batch_size
        if not self._plan.grow and not (
            self._joined.verdict is Verdict.EQUAL and self._runs.is_cheap(maximum) and self._runs.has_time(maximum)
        ):
            return
        shown = (*(count for count in _ODD if count < maximum), maximum)
        for count in _sizes(maximum, self._plan.sizes) if self._plan.grow else shown:
            feeds_bytes = sum(array.nbytes for array in rows[0].values()) * count
            reason = self._runs.input_obstacle(feeds_bytes) or self._runs.obstacle(count, count)
            if reason is not None:
                _log.warning(
                    "model '%s': no warm-up batch of %d rows: %s; lower max_batch_size if no request is that large",
                    *(self._rules.model, count, reason),
                )
                return
            try:
                answer = self._runs.run(repeated(join(rows), count), count)
            except (MnServeError, MemoryError) as error:
                reason = f"a warm-up batch of {count} rows fails: {str(error) or 'there is no memory for it'}"
                self._joined = JoinedRows(verdict=Verdict.DIFFERENT, reason=reason)
                return
            if sum(array.size for array in answer.values()) <= _COMPARED_ELEMENTS:
                self._check_repeated(alone, answer, count)

    def _check_repeated(self, alone: Sequence[Tensors], answer: Tensors, count: int) -> None:
        if self._joined.verdict is Verdict.EQUAL:
            fault = values_differ(repeated(join(alone), count), answer, self._rules)
            if fault is not None:
                self._joined = JoinedRows(verdict=Verdict.DIFFERENT, reason=fault)

    def finish(self) -> None:
        """Gives back the memory of batches that nobody asked for."""
        if self.probe is not None and not self._plan.grow and self._runs.rows[-1] > 1:
            with contextlib.suppress(MnServeError, MemoryError):  # it ran before
                self._runs.trim(self.probe(0))

    def outcome(self, source: str) -> WarmUp:
        """Sums up."""
        joined = self._joined
        if joined.verdict is Verdict.UNKNOWN and (self._stopped or self._fault):
            joined = JoinedRows(verdict=Verdict.UNKNOWN, reason=self._stopped or self._fault)
        if self.probe is None:
            reason = self._stopped or self._fault or "there is nothing to run"
            _log.warning("model '%s': not warmed up: %s", self._rules.model, reason)
            return WarmUp(joined=joined, ran=False, probe=None, text=f"not run: {reason}")
        sizes = self._runs.rows
        batches = f"batches of {', '.join(map(str, sizes))} rows" if sizes[-1:] > [1] else "single requests"
        return WarmUp(
            joined=joined,
            ran=True,
            probe=_probe(self.probe, self._rules),
            text=f"{batches} of {source} ran, in {self._runs.seconds:.2g} s",
            shapes=self._shapes,
            row_bytes=self._runs.row_bytes,
            costs=self._runs.costs,
        )


def _probe(row: MakeRow, rules: RequestSignature) -> Callable[[], InferenceWork] | None:
    """Makes the probe anew where it is needed: its inputs would stay in memory for as long as the model."""
    if sum(array.nbytes for array in row(0).values()) > _PROBE_BYTES:
        return None
    return lambda: InferenceWork(feeds=row(0), rows=1, outputs=tuple(rules.default_outputs))


def _sizes(maximum: int, allowed: Sequence[int]) -> Iterator[int]:
    """Yields the batch sizes beyond those of the comparison, ascending up to the maximum."""
    if allowed:
        yield from (size for size in allowed if size < maximum)
        yield maximum
        return
    size = 2 * JOINED[-1]
    while size < maximum:
        yield size
        size *= 2
    if maximum > JOINED[0] and maximum not in JOINED:
        yield maximum
