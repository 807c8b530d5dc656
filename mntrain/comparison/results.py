"""Result of a comparison, gathered from the files of its runs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mntrain.comparison.figures import RunFigures
from mntrain.comparison.paired import holm, paired_p_value
from mntrain.comparison.plan import CompareOptions, PlannedRun
from mntrain.comparison.row import Difference, Row
from mntrain.errors import ConfigError
from mntrain.training.evaluation import ACCURACY, Metric, metric_of


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
                    "adaptation": None if row.acting is None else row.acting.to_json(),
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
        test = run.metrics()["test"]
        metric = metric_of(test, run.name)
        examples = int(test.get("examples", test.get("images", 0)))
        tested.setdefault(run.tested_on(metric.name), run.variant.name)
        if len(tested) > 1:
            first, second = tested.values()
            raise ConfigError(
                f"Variants {first!r} and {second!r} were not tested on the same examples by the same figure, so they "
                "cannot be compared; let them differ in nothing that changes the test split or the kind of target."
            )
        figures[run.variant.name][run.seed] = RunFigures.of(run)
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
