"""What a run of a model costs, measured while the model is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RunCosts:
    """Seconds of a run of one engine; the quickest of a few runs.

    Attributes:
        one: Seconds of a run of one row.
        most: Seconds of a run of ``rows`` rows.
        rows: Most rows that were run together.
    """

    one: float
    most: float
    rows: int

    @property
    def row(self) -> float:
        """Seconds of a row in the largest batch."""
        return self.most / self.rows

    def at(self, rows: int) -> float:
        """Estimates the seconds of a run of at most ``self.rows`` rows."""
        if self.rows == 1:
            return self.one
        return self.one + (self.most - self.one) * (rows - 1) / (self.rows - 1)
