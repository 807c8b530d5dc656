"""The figures of a cross-validation: errors of every fold, and how sure the differences between families are."""

import math
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from mntrain.comparison.paired import paired_p_value
from mntrain.crossval.plan import CrossvalOptions
from mntrain.crossval.search import Choice

SIGNIFICANCE = 0.05
MEASURED = "meta_neighborhoods"


@dataclass(frozen=True, kw_only=True)
class Scores:
    """One family on one data set.

    Args:
        family: knn or a model family.
        mse: mean squared error of standardised test targets, fold by fold.
        details: of every fold, as plain values.
    """

    family: str
    mse: tuple[float, ...]
    details: tuple[dict[str, Any], ...]

    @property
    def mean(self) -> float:
        """Over the folds."""
        return statistics.mean(self.mse)

    @property
    def std(self) -> float:
        """Sample deviation over the folds."""
        return statistics.stdev(self.mse)


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """One data set.

    Args:
        name: of its recipe.
        rows: of the whole table.
        features: columns beside the target.
        choice: what its networks were trained with.
        scores: one for each family whose folds have all been trained.
        failures: what could not be trained, and why.
    """

    name: str
    rows: int
    features: int
    choice: Choice
    scores: tuple[Scores, ...]
    failures: tuple[str, ...] = ()

    def of(self, family: str) -> Scores | None:
        """The scores of a family, if it took part."""
        return next((one for one in self.scores if one.family == family), None)

    @property
    def best(self) -> str | None:
        """The family with the smallest mean error; None where none has been trained."""
        return min(self.scores, key=lambda one: one.mean).family if self.scores else None

    def p_value(self, other: str) -> float | None:
        """Of the paired t-test of Meta-Neighborhoods against ``other``; None where one of them is not there."""
        ours, theirs = self.of(MEASURED), self.of(other)
        return None if ours is None or theirs is None else paired_p_value(ours.mse, theirs.mse)

    def _decay(self, family: str) -> dict[str, Any]:
        searched = {repr(decay): _plain(error) for decay, error in self.choice.decays[family].items()}
        chosen = self.choice.settings.get(family)
        return {"chosen": None if chosen is None else chosen.decay, "searched": searched}

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        others = [one.family for one in self.scores if one.family != MEASURED and self.of(MEASURED) is not None]
        tests = {}
        for other in others:
            p_value = self.p_value(other)
            ours, theirs = self.of(MEASURED), self.of(other)
            assert ours is not None
            assert theirs is not None
            tests[other] = {
                "p_value": p_value,
                "significant": p_value is not None and p_value < SIGNIFICANCE,
                "better": ours.mean < theirs.mean,
            }
        return {
            "name": self.name,
            "rows": self.rows,
            "features": self.features,
            "architecture": None if self.choice.architecture is None else asdict(self.choice.architecture),
            "search": {name: _plain(error) for name, error in self.choice.architectures.items()},
            "decays": {family: self._decay(family) for family in self.choice.decays},
            "families": {
                one.family: {"mean": one.mean, "std": one.std, "mse": list(one.mse), "folds": list(one.details)}
                for one in self.scores
            },
            "meta_neighborhoods_against": tests,
            "failures": list(self.failures),
        }


def _plain(error: float) -> float | None:
    """JSON knows no infinity."""
    return error if math.isfinite(error) else None


@dataclass(frozen=True, kw_only=True)
class Crossval:
    """The whole result.

    Args:
        options: what was asked for.
        sets: one for each recipe.
    """

    options: CrossvalOptions
    sets: tuple[SetResult, ...]

    @property
    def failures(self) -> list[str]:
        """What could not be trained, and why."""
        return [failure for one in self.sets for failure in one.failures]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as written to ``crossval.json``."""
        return {
            "folds": self.options.folds,
            "families": list(self.options.families),
            "searched": [str(one) for one in self.options.architectures] if self.options.search else [],
            "overrides": list(self.options.overrides),
            "metric": "mse of standardised test targets",
            "significance": SIGNIFICANCE,
            "sets": [one.to_json() for one in self.sets],
        }
