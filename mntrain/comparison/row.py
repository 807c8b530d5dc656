"""Row of a comparison: mean ± deviation of one variant, and its paired difference to the baseline."""

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from mntrain.acting.record import AdaptationRecord
from mntrain.comparison.acting import Acting, acting_of
from mntrain.comparison.figures import RunFigures


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Differences of a variant to the baseline, seed by seed.

    Args:
        mean: mean of the differences.
        std: sample deviation; None for one seed.
        p_value: p-value of the two-sided paired t-test; None for one seed, or where all differences are equal.
        p_holm: the same, Holm-corrected for the number of variants that are tested against the baseline.
        seeds: seeds that both have finished.
    """

    mean: float
    std: float | None
    p_value: float | None
    seeds: tuple[int, ...]
    p_holm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row of the table: all runs of a variant.

    Args:
        variant: name of the variant.
        words: overrides that make the variant.
        runs: finished runs, in the order of the seeds.
        failed: seed of each failed run → the reason.
        difference: difference to the baseline; None for the baseline itself and where no seed is shared.
    """

    variant: str
    words: tuple[str, ...]
    runs: tuple[RunFigures, ...]
    failed: dict[int, str]
    difference: Difference | None

    @property
    def scores(self) -> list[float]:
        """Score of each finished run."""
        return [run.score for run in self.runs]

    @property
    def mean(self) -> float | None:
        """Mean of the scores; None where no run has finished."""
        return statistics.mean(self.scores) if self.runs else None

    @property
    def std(self) -> float | None:
        """Sample deviation of the scores; None for fewer than two."""
        return statistics.stdev(self.scores) if len(self.runs) > 1 else None

    @property
    def unadapted_mean(self) -> float | None:
        """Mean of the metric before adaptation; None where the family does not adapt."""
        known = [run.unadapted for run in self.runs if run.unadapted is not None]
        return statistics.mean(known) if known else None

    @property
    def gain_mean(self) -> float | None:
        """Mean of the adapted minus the unadapted metric; None where the family does not adapt."""
        gains = self._gains()
        return statistics.mean(gains) if gains else None

    @property
    def acting(self) -> Acting | None:
        """What adaptation does; None where the family does not adapt."""
        gains, records = self._gains(), self._records()
        if not gains and not records:
            return None
        return acting_of(gains, records, same_split=len({run.split for run in self.runs}) == 1)

    @property
    def verdicts(self) -> list[str]:
        """Findings on the adaptation that every finished run shares in kind, as the first run tells them."""
        records = self._records()
        if not records or len(records) < len(self.runs):
            return []
        fewest = min(records, key=lambda record: len(record.verdicts()))
        return fewest.verdicts()

    def figures(self) -> dict[str, Any]:
        """Return the figures of all runs together as plain values."""
        return {
            "mean": self.mean,
            "std": self.std,
            "unadapted_mean": self.unadapted_mean,
            "gain_mean": self.gain_mean,
            "difference": None if self.difference is None else asdict(self.difference),
        }

    def _gains(self) -> list[float]:
        return [run.gain for run in self.runs if run.gain is not None]

    def _records(self) -> list[AdaptationRecord]:
        return [run.adaptation for run in self.runs if run.adaptation is not None]
