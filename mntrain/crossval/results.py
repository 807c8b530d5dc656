"""Figures of a cross-validation: errors of every fold, and p-values of the differences between families."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mntrain.comparison.paired import holm, paired_p_value
from mntrain.crossval.plan import CrossvalOptions
from mntrain.crossval.search import Choice

SIGNIFICANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Errors of one family on one data set.

    Args:
        family: knn, gradient_boosting, a model family, or Meta-Neighborhoods with one start.
        mse: mean squared error of standardised test targets, fold by fold; of several targets their mean.
        details: further figures of every fold, as plain values.
    """

    family: str
    mse: tuple[float, ...]
    details: tuple[dict[str, Any], ...]

    @property
    def mean(self) -> float:
        """Mean over the folds."""
        return statistics.mean(self.mse)

    @property
    def std(self) -> float:
        """Sample deviation over the folds."""
        return statistics.stdev(self.mse)

    def of_target(self, target: str) -> "Scores":
        """Return the errors of one of several targets."""
        details = tuple(fold["targets"][target] for fold in self.details)
        return Scores(family=self.family, mse=tuple(float(fold["mse"]) for fold in details), details=details)


@dataclass(frozen=True, kw_only=True)
class SetResult:
    """Result on one data set.

    Args:
        name: name of the recipe.
        rows: number of rows of the whole table.
        features: number of columns beside the targets.
        targets: name of each target.
        choice: settings of the networks.
        scores: errors of each family whose folds have all been trained.
        failures: description of each failed run.
        tested: the Meta-Neighborhoods whose differences to the others are tested; None without one.
        p_holm: p-value against each other family as :func:`corrected` has it; empty before.
    """

    name: str
    rows: int
    features: int
    targets: tuple[str, ...]
    choice: Choice
    scores: tuple[Scores, ...]
    failures: tuple[str, ...] = ()
    tested: str | None = "meta_neighborhoods"
    p_holm: dict[str, float | None] = field(default_factory=dict)

    def by_target(self) -> "tuple[SetResult, ...]":
        """Return the result for each of several targets, under the name SET: TARGET; empty for one target.

        Their p-values are corrected among themselves.
        """
        if len(self.targets) == 1:
            return ()
        return corrected(
            replace(
                self,
                name=f"{self.name}: {target}",
                targets=(target,),
                scores=tuple(scores.of_target(target) for scores in self.scores),
                failures=(),
            )
            for target in self.targets
        )

    def of(self, family: str) -> Scores | None:
        """Return the scores of a family; None if it has none."""
        return next((scores for scores in self.scores if scores.family == family), None)

    @property
    def best(self) -> str | None:
        """Family with the smallest mean error; None where none has been trained."""
        return min(self.scores, key=lambda scores: scores.mean).family if self.scores else None

    def p_value(self, other: str) -> float | None:
        """Return the p-value of :attr:`tested` against ``other``, by paired t-test; None without scores of both."""
        measured, compared = self._tested, self.of(other)
        return None if measured is None or compared is None else paired_p_value(measured.mse, compared.mse)

    @property
    def _tested(self) -> Scores | None:
        return None if self.tested is None else self.of(self.tested)

    def _decay(self, family: str) -> dict[str, Any]:
        searched = {repr(decay): _plain(error) for decay, error in self.choice.decays[family].items()}
        chosen = self.choice.settings.get(family)
        return {"chosen": None if chosen is None else chosen.decay, "searched": searched}

    def to_json(self) -> dict[str, Any]:
        """Return plain values; of several targets with their own errors and tests under ``targets``."""
        of_targets = {
            result.targets[0]: {
                "families": {
                    scores.family: {"mean": scores.mean, "std": scores.std, "mse": list(scores.mse)}
                    for scores in result.scores
                },
                "meta_neighborhoods_against": result.tests(),
            }
            for result in self.by_target()
        }
        return {
            "name": self.name,
            "rows": self.rows,
            "features": self.features,
            "architecture": None if self.choice.architecture is None else asdict(self.choice.architecture),
            "search": {name: _plain(error) for name, error in self.choice.architectures.items()},
            "decays": {family: self._decay(family) for family in self.choice.decays},
            "families": {
                scores.family: {
                    "mean": scores.mean,
                    "std": scores.std,
                    "mse": list(scores.mse),
                    "folds": list(scores.details),
                }
                for scores in self.scores
            },
            "tested": self.tested,
            "meta_neighborhoods_against": self.tests(),
            **({"targets": of_targets} if of_targets else {}),
            "failures": list(self.failures),
        }

    def tests(self) -> dict[str, dict[str, Any]]:
        """Test :attr:`tested` against each of the others: family → p-value, and whether it is better."""
        measured = self._tested
        if measured is None:
            return {}
        found = {}
        for scores in self.scores:
            if scores is not measured:
                p_value = self.p_value(scores.family)
                found[scores.family] = {
                    "p_value": p_value,
                    "p_holm": self.p_holm.get(scores.family),
                    "significant": p_value is not None and p_value < SIGNIFICANCE,
                    "better": measured.mean < scores.mean,
                }
        return found


def corrected(results: Iterable[SetResult]) -> tuple[SetResult, ...]:
    """Correct the p-values of all tests on all ``results``, as one family, by Holm's method."""
    sets = tuple(results)
    tests = [(place, family, test["p_value"]) for place, one in enumerate(sets) for family, test in one.tests().items()]
    of_set: list[dict[str, float | None]] = [{} for _ in sets]
    for (place, family, _), p_holm in zip(tests, holm([p_value for *_, p_value in tests]), strict=True):
        of_set[place][family] = p_holm
    return tuple(replace(one, p_holm=p_values) for one, p_values in zip(sets, of_set, strict=True))


def _plain(error: float) -> float | None:
    """Replace infinity, which JSON lacks, by None."""
    return error if math.isfinite(error) else None


@dataclass(frozen=True, kw_only=True)
class Crossval:
    """Result of a cross-validation.

    Args:
        options: data sets, families and folders.
        sets: result on the data set of each recipe.
    """

    options: CrossvalOptions
    sets: tuple[SetResult, ...]

    @property
    def rows(self) -> tuple[SetResult, ...]:
        """Rows of table and picture: each data set, and below it each of several targets."""
        return tuple(row for result in self.sets for row in (result, *result.by_target()))

    @property
    def failures(self) -> list[str]:
        """Description of each failed run."""
        return [failure for result in self.sets for failure in result.failures]

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as written to ``crossval.json``."""
        return {
            "folds": self.options.folds,
            "families": list(self.options.families),
            "searched": [str(architecture) for architecture in self.options.architectures]
            if self.options.search
            else [],
            "overrides": list(self.options.overrides),
            "metric": "mse of standardised test targets",
            "significance": SIGNIFICANCE,
            "sets": [result.to_json() for result in self.sets],
        }
