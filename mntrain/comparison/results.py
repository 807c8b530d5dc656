"""Figures of a comparison: mean ± deviation of every variant, and paired differences to the baseline."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mntrain.acting.record import AdaptationRecord
from mntrain.comparison.paired import holm, paired_p_value
from mntrain.comparison.plan import CompareOptions, PlannedRun
from mntrain.errors import ConfigError
from mntrain.training.evaluation import ACCURACY, Metric, metric_of


@dataclass(frozen=True, kw_only=True)
class RunFigures:
    """Figures of a finished run.

    Args:
        name: name of the run.
        seed: seed of the run.
        score: metric on the test split; of several targets their mean.
        unadapted: metric before adaptation; None where the family does not adapt.
        targets: the same two figures of each of several targets; empty for one target, or for classes.
        parameters: number of parameters of the model.
        epochs: number of trained epochs.
        seconds: time of training.
        adaptation: effect of adaptation; None where the family does not adapt, or the run is from before it was told.
    """

    name: str
    seed: int
    score: float
    unadapted: float | None
    targets: dict[str, tuple[float, float | None]]
    parameters: int
    epochs: int
    seconds: float
    adaptation: AdaptationRecord | None = None

    def of_target(self, target: str) -> "RunFigures":
        """Return the figures of one of several targets."""
        score, unadapted = self.targets[target]
        return replace(self, score=score, unadapted=unadapted, targets={}, adaptation=None)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; ``targets`` only where there are several."""
        plain = asdict(self)
        targets = {name: {"score": score, "unadapted": before} for name, (score, before) in self.targets.items()}
        return plain | {"targets": targets} if targets else {name: plain[name] for name in plain if name != "targets"}


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
        gains = [run.score - run.unadapted for run in self.runs if run.unadapted is not None]
        return statistics.mean(gains) if gains else None

    @property
    def weight_change_mean(self) -> float | None:
        """Mean relative change of the adapted weights; None where it is not known."""
        known = [run.adaptation.weight_change for run in self.runs if run.adaptation is not None]
        return statistics.mean(known) if known else None

    @property
    def verdicts(self) -> list[str]:
        """Findings on the adaptation that every finished run shares in kind, as the first run tells them."""
        records = [run.adaptation for run in self.runs if run.adaptation is not None]
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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result of a comparison.

    Args:
        options: variants, seeds and folders.
        metric: figure that is compared.
        examples: number of examples in the test split; 0 where no run has finished.
        rows: a row for each variant.
        targets: the rows for each of several targets; empty for one target, or for classes.
    """

    options: CompareOptions
    metric: Metric
    examples: int
    rows: tuple[Row, ...]
    targets: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    @property
    def failures(self) -> list[tuple[str, int, str]]:
        """Variant, seed and reason of every run that failed."""
        return [(row.variant, seed, reason) for row in self.rows for seed, reason in row.failed.items()]

    def _targets(self) -> dict[str, list[dict[str, Any]]]:
        return {name: [{"variant": row.variant} | row.figures() for row in rows] for name, rows in self.targets.items()}

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as written to ``compare.json``."""
        return {
            "recipe": self.options.stem,
            "overrides": list(self.options.overrides),
            "metric": self.metric.name,
            "test_examples": self.examples,
            "seeds": list(self.options.seeds),
            "baseline": self.options.baseline,
            "variants": [
                {
                    "variant": row.variant,
                    "words": list(row.words),
                    **row.figures(),
                    "weight_change_mean": row.weight_change_mean,
                    "findings": row.verdicts,
                    "runs": [run.to_json() for run in row.runs],
                    "failed": {str(seed): reason for seed, reason in row.failed.items()},
                }
                for row in self.rows
            ],
            **({"targets": self._targets()} if self.targets else {}),
            "sweeps": [
                {
                    "field": sweep.field,
                    "values": list(sweep.values),
                    "variants": [variant.name for variant in sweep.variants()],
                }
                for sweep in self.options.sweeps
            ],
        }


def gather(options: CompareOptions, runs: Sequence[PlannedRun], failed: dict[str, str]) -> Comparison:
    """Read the metrics of every run that has finished.

    Args:
        options: variants, seeds and folders.
        runs: all runs of the plan.
        failed: name of each failed run → the reason.

    Raises:
        ConfigError: metrics cannot be read, or runs were not tested alike.
        ArtifactError: a run reports no known metric.
    """
    figures: dict[str, dict[int, RunFigures]] = {variant.name: {} for variant in options.rows}
    reasons: dict[str, dict[int, str]] = {variant.name: {} for variant in options.rows}
    metric: Metric = ACCURACY
    examples = 0
    tested: dict[Any, str] = {}
    for run in runs:
        if run.name in failed:
            reasons[run.variant.name][run.seed] = failed[run.name]
            continue
        metrics = run.metrics()
        test = metrics["test"]
        metric = metric_of(test, run.name)
        examples = int(test.get("examples", test.get("images", 0)))
        tested.setdefault(run.tested_on(metric.name), run.variant.name)
        if len(tested) > 1:
            first, second = tested.values()
            raise ConfigError(
                f"Variants {first!r} and {second!r} were not tested on the same examples by the same figure, so they "
                "cannot be compared; let them differ in nothing that changes the test split or the kind of target."
            )
        figures[run.variant.name][run.seed] = RunFigures(
            name=run.name,
            seed=run.seed,
            score=float(test[metric.name]),
            unadapted=test.get(f"unadapted_{metric.name}"),
            targets={
                name: (float(of_target[metric.name]), of_target.get(f"unadapted_{metric.name}"))
                for name, of_target in test.get("targets", {}).items()
            },
            parameters=int(metrics["parameters"]),
            epochs=int(metrics["epochs"]),
            seconds=float(metrics["train_seconds"]),
            adaptation=AdaptationRecord.from_metrics(metrics),
        )
    rows = _rows(options, figures, reasons)
    finished = [run for of_variant in figures.values() for run in of_variant.values()]
    targets = {
        name: _rows(
            options,
            {
                variant: {seed: run.of_target(name) for seed, run in of_variant.items()}
                for variant, of_variant in figures.items()
            },
            reasons,
        )
        for name in (finished[0].targets if finished else ())
    }
    return Comparison(options=options, metric=metric, examples=examples, rows=rows, targets=targets)


def _rows(
    options: CompareOptions, figures: dict[str, dict[int, RunFigures]], reasons: dict[str, dict[int, str]]
) -> tuple[Row, ...]:
    """Make a row of each variant's figures by seed."""
    baseline = figures[options.baseline]
    differences = _corrected(
        {
            variant.name: _difference(figures[variant.name], baseline)
            for variant in options.rows
            if variant.name != options.baseline
        }
    )
    return tuple(
        Row(
            variant=variant.name,
            words=variant.words,
            runs=tuple(figures[variant.name].values()),
            failed=reasons[variant.name],
            difference=differences.get(variant.name),
        )
        for variant in options.rows
    )


def _corrected(differences: dict[str, Difference | None]) -> dict[str, Difference | None]:
    """Add the corrected p-values of all variants that are compared with one baseline."""
    p_values = [None if difference is None else difference.p_value for difference in differences.values()]
    return {
        name: None if difference is None else replace(difference, p_holm=p_holm)
        for (name, difference), p_holm in zip(differences.items(), holm(p_values), strict=True)
    }


def _difference(variant: dict[int, RunFigures], baseline: dict[int, RunFigures]) -> Difference | None:
    shared = [seed for seed in variant if seed in baseline]
    if not shared:
        return None
    scores, baseline_scores = [variant[seed].score for seed in shared], [baseline[seed].score for seed in shared]
    differences = [a - b for a, b in zip(scores, baseline_scores, strict=True)]
    return Difference(
        mean=statistics.mean(differences),
        std=statistics.stdev(differences) if len(shared) > 1 else None,
        p_value=paired_p_value(scores, baseline_scores),
        seeds=tuple(shared),
    )
