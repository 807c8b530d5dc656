"""Result of a tuning, with everything needed to judge and repeat it."""

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
"""Lowest percentile that a note suggests: a bound below the median is hardly meant."""


@dataclass(frozen=True, kw_only=True)
class TuneResult:
    """Result of a tuning."""

    settings: TuneSettings
    machine: Machine
    outcome: SearchResult
    remarks: tuple[str, ...]
    """Notes about the search for the reader, as sentences."""
    text: str | None
    """New content of ``config.pbtxt``; None for no change."""
    written: Path | None = None
    """The file that was written; None if none was."""
    backup: Path | None = None
    """Backup of the old file; None without one."""

    def after_writing(self, written: Path, backup: Path | None) -> TuneResult:
        """Returns the result after the file was written."""
        return replace(self, written=written, backup=backup)

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
        """The chosen configuration against the current one, in sentences."""
        return f"{self._choice}{self._doubt}"

    @property
    def _choice(self) -> str:
        goal, chosen = self.settings.goal, self.outcome.chosen
        if chosen is None:
            best = min(self.outcome.searched, key=lambda candidate: self.outcome.best(candidate).tail_ms)
            return (
                f"no configuration keeps {goal.name} within {goal.latency_ms:g} ms; the lowest that was reached is "
                f"{self.outcome.best(best).tail_ms:.3g} ms, with {best.label}; allow more, have fewer callers, or "
                "use a faster machine or model"
            )
        best_score, now = self.outcome.best(chosen), self.outcome.best(self.outcome.current)
        summary = f"{chosen.label}: {best_score.rows_per_second:,.0f} rows/s, {goal.name} {best_score.tail_ms:.3g} ms"
        if chosen == self.outcome.current:
            return f"What is configured already is best: {summary}."
        return f"Chosen: {summary}; now {now.rows_per_second:,.0f} rows/s, {goal.name} {now.tail_ms:.3g} ms."

    @property
    def _doubt(self) -> str:
        """Caveat of the verdict: with too few calls the percentile is the slowest call."""
        goal = self.settings.goal
        scores = [score for score in self.outcome.finals.values() if score.loads]
        if all(score.has_enough_calls(goal) for score in scores):
            return ""
        fewest = min(score.least_calls for score in scores)
        seconds = math.ceil(self.settings.seconds * goal.least_calls / fewest)
        percentile_limit = 100 * (1 - 1 / fewest)
        remedies = [f"raise --seconds to {seconds}"] if seconds <= MAX_SECONDS else []
        if percentile_limit >= _MIN_PERCENT:
            remedies.append(f"lower --percentile to {math.floor(percentile_limit)}")
        end = "" if self._choice.endswith(".") else "."
        return (
            f"{end} Do not rely on {goal.name}: a round had as few as {counted(fewest, 'call')}, of which it is the "
            f"slowest, and only of {goal.least_calls} or more is it not; "
            + (", or ".join(remedies) or "measure with more callers or on a faster machine")
        )

    @property
    def done(self) -> str:
        """Sentence about the file: written or not."""
        if self.written is not None:
            backup = "" if self.backup is None else f"; the file of before is {self.backup.name}, comments included"
            return f"Written: {self.written}{backup}. A server has to load the model again."
        if self.text is not None and self.settings.dry_run:
            return "Not written (--dry-run)."
        return "Nothing was written."

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader, as sentences."""
        goal = self.settings.goal
        notes = list(self.remarks)
        calls = min((score.least_calls for score in self.outcome.finals.values() if score.loads), default=0)
        if goal.percentile < _MAX_PERCENT:
            # Ten calls beyond the percentile: with fewer it depends on one or two calls.
            steady_calls = round(10 / (1 - goal.percentile / 100))
            if goal.least_calls <= calls < steady_calls:
                notes.append(
                    f"Only {calls} calls in a round of the finals, where {steady_calls} would make {goal.name} steady: "
                    "raise --seconds."
                )
        notes += [
            f"Out: {candidate.label}: {score.fault}" for candidate, score in self._scores().items() if score.fault
        ]
        return tuple(notes)

    def _scores(self) -> dict[Candidate, Score]:
        return {candidate: self.outcome.best(candidate) for candidate in self.outcome.searched}

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; times in milliseconds, delays in microseconds."""
        outcome, goal = self.outcome, self.settings.goal
        return {
            "schema": SCHEMA,
            "settings": asdict(self.settings),
            "machine": self.machine.to_json(),
            "current": asdict(outcome.current),
            "chosen": None if outcome.chosen is None else asdict(outcome.chosen),
            "measured": [
                {
                    **asdict(candidate),
                    "final": candidate in outcome.finals,
                    "keeps_bound": score.keeps_bound(goal),
                    "enough_calls": score.has_enough_calls(goal),
                    "tail_ms": score.tail_ms if score.loads else None,
                    "rows_per_second": score.rows_per_second if score.loads else None,
                    "loads": [asdict(load) for load in score.loads],
                    "fault": score.fault or None,
                }
                for candidate, score in self._scores().items()
            ],
            "config": self.text,
            "written": None if self.written is None else str(self.written),
            "kept": None if self.backup is None else str(self.backup),
            "verdict": self.verdict,
            "notes": list(self.notes),
        }
