"""What was measured and chosen, with everything needed to judge and repeat it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mnserve.bench.machine import Machine
from mnserve.bench.options import MAX_SECONDS
from mnserve.tuning.candidate import Candidate, counted
from mnserve.tuning.scores import Score
from mnserve.tuning.search import SearchResult
from mnserve.tuning.settings import TuneSettings

SCHEMA = 1
_MAX_PERCENT = 100
_MIN_PERCENT = 50
"""Bounds on less than the median are not what anybody means."""


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    """The whole of a tuning."""

    settings: TuneSettings
    machine: Machine
    outcome: SearchResult
    remarks: tuple[str, ...]
    """What a reader has to know about the search, as sentences."""
    text: str | None
    """What ``config.pbtxt`` is to say; None where nothing is to be changed."""
    written: Path | None = None
    """The file that was written."""
    kept: Path | None = None
    """Where the file that was there before is kept."""

    def put_in_place(self, written: Path, kept: Path | None) -> TuneResult:
        """The same after the file was written."""
        return replace(self, written=written, kept=kept)

    @property
    def caption(self) -> str:
        """Machine, load and amount of measuring in one line."""
        settings = self.settings
        rows = f"{settings.rows} row{'s' * (settings.rows != 1)} a request"
        amount = f"{settings.seconds:g} s each, {settings.repeats} rounds of the best"
        callers = " and ".join(map(str, settings.loads))
        return f"{self.machine.caption}; gRPC, callers: {callers}; {rows}; {amount}"

    @property
    def verdict(self) -> str:
        """What was chosen, against what is configured now."""
        return f"{self._found}{self._doubt}"

    @property
    def _found(self) -> str:
        goal, chosen = self.settings.goal, self.outcome.chosen
        if chosen is None:
            best = min(self.outcome.searched, key=lambda one: self.outcome.best(one).tail_ms)
            return (
                f"no configuration keeps {goal.name} within {goal.latency_ms:g} ms; the lowest that was reached is "
                f"{self.outcome.best(best).tail_ms:.3g} ms, with {best.label}; allow more, have fewer callers, or "
                "use a faster machine or model"
            )
        its, now = self.outcome.best(chosen), self.outcome.best(self.outcome.current)
        found = f"{chosen.label}: {its.rows_per_second:,.0f} rows/s, {goal.name} {its.tail_ms:.3g} ms"
        if chosen == self.outcome.current:
            return f"What is configured already is best: {found}."
        return f"Chosen: {found}; now {now.rows_per_second:,.0f} rows/s, {goal.name} {now.tail_ms:.3g} ms."

    @property
    def _doubt(self) -> str:
        """What takes from the verdict: so few calls that the percentile is another word for the slowest."""
        goal = self.settings.goal
        said = [its for its in self.outcome.finals.values() if its.loads]
        if all(its.tells(goal) for its in said):
            return ""
        fewest = min(its.least_calls for its in said)
        seconds = math.ceil(self.settings.seconds * goal.least_calls / fewest)
        most = 100 * (1 - 1 / fewest)
        ways = [f"raise --seconds to {seconds}"] if seconds <= MAX_SECONDS else []
        ways += [f"lower --percentile to {math.floor(most)}"] if most >= _MIN_PERCENT else []
        end = "" if self._found.endswith(".") else "."
        return (
            f"{end} Do not rely on {goal.name}: a round had as few as {counted(fewest, 'call')}, of which it is the "
            f"slowest, and only of {goal.least_calls} or more is it not; "
            + (", or ".join(ways) or "measure with more callers or on a faster machine")
        )

    @property
    def done(self) -> str:
        """What became of the file."""
        if self.written is not None:
            kept = "" if self.kept is None else f"; the file of before is {self.kept.name}, comments included"
            return f"Written: {self.written}{kept}. A server has to load the model again."
        if self.text is not None and self.settings.dry_run:
            return "Not written (--dry-run)."
        return "Nothing was written."

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know, as sentences."""
        goal = self.settings.goal
        notes = list(self.remarks)
        calls = min((its.least_calls for its in self.outcome.finals.values() if its.loads), default=0)
        if goal.percentile < _MAX_PERCENT:
            # Ten calls beyond the percentile: with fewer it hangs on one or two of them.
            wanted = round(10 / (1 - goal.percentile / 100))
            if goal.least_calls <= calls < wanted:
                notes.append(
                    f"Only {calls} calls in a round of the finals, where {wanted} would make {goal.name} steady: "
                    "raise --seconds."
                )
        notes += [f"Out: {one.label}: {its.fault}" for one, its in self._scores().items() if its.fault]
        return tuple(notes)

    def _scores(self) -> dict[Candidate, Score]:
        return {one: self.outcome.best(one) for one in self.outcome.searched}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; times in milliseconds, delays in microseconds."""
        outcome, goal = self.outcome, self.settings.goal
        return {
            "schema": SCHEMA,
            "settings": asdict(self.settings),
            "machine": self.machine.to_json(),
            "current": asdict(outcome.current),
            "chosen": None if outcome.chosen is None else asdict(outcome.chosen),
            "measured": [
                {
                    **asdict(one),
                    "final": one in outcome.finals,
                    "keeps_bound": its.keeps(goal),
                    "enough_calls": its.tells(goal),
                    "tail_ms": its.tail_ms if its.loads else None,
                    "rows_per_second": its.rows_per_second if its.loads else None,
                    "loads": [asdict(load) for load in its.loads],
                    "fault": its.fault or None,
                }
                for one, its in self._scores().items()
            ],
            "config": self.text,
            "written": None if self.written is None else str(self.written),
            "kept": None if self.kept is None else str(self.kept),
            "verdict": self.verdict,
            "notes": list(self.notes),
        }
