"""Comparison of heads: scores by group of classes, store by store, and paired differences."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mntrain.comparison.paired import holm, paired_p_value
from mntrain.comparison.row import Difference
from mntrain.errors import ConfigError
from mntrain.heads.groups import GROUPS
from mntrain.heads.record import SCHEMA, HeadRecord
from mntrain.heads.tradeoff import TradeoffCurve, TradeoffPoint, curves_of, points_of

COMPARED = ("few", "all")
"""Groups whose differences to the baseline are tested."""


@dataclass(frozen=True, kw_only=True)
class HeadScores:
    """Scores of one method on all stores and seeds.

    Args:
        method: name.
        accuracy: group → test accuracy in every unit; a group without examples is left out.
        top_5: share of test examples of all classes among the five likeliest, in every unit; empty for few classes.
        seconds: of making the head, in every unit.
        differences: group → difference to the baseline; empty for the baseline itself.
    """

    method: str
    accuracy: Mapping[str, tuple[float, ...]]
    top_5: tuple[float, ...]
    seconds: tuple[float, ...]
    differences: Mapping[str, Difference]


@dataclass(frozen=True, kw_only=True)
class HeadComparison:
    """Comparison of all heads. A unit is a store with a seed.

    Args:
        records: of every head.
        baseline: method that differences are taken to.
        rows: scores of each method.
        points: each method as a point of the trade-off.
        curves: methods over the values of a setting.
    """

    records: tuple[HeadRecord, ...]
    baseline: str
    rows: tuple[HeadScores, ...]
    points: tuple[TradeoffPoint, ...]
    curves: tuple[TradeoffCurve, ...]

    @classmethod
    def of(cls, records: Sequence[HeadRecord], baseline: str | None = None) -> HeadComparison:
        """Compare heads; the baseline is joint where it is among them, else the first method.

        Raises:
            ConfigError: the baseline is not among the methods.
        """
        methods = tuple(dict.fromkeys(record["method"] for record in records))
        chosen = baseline or ("joint" if "joint" in methods else methods[0])
        if chosen not in methods:
            raise ConfigError(f"--baseline is {chosen!r}, which is not among the methods {', '.join(methods)}.")
        by_method = {method: [record for record in records if record["method"] == method] for method in methods}
        rows = [_scores(method, by_method[method], by_method[chosen]) for method in methods]
        return cls(
            records=tuple(records),
            baseline=chosen,
            rows=_corrected(rows),
            points=points_of(records),
            curves=curves_of(records),
        )

    @property
    def units(self) -> tuple[str, ...]:
        """Store and seed of each unit."""
        return tuple(dict.fromkeys(unit_of(record) for record in self.records))

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that have examples."""
        return tuple(group for group in GROUPS if any(group in row.accuracy for row in self.rows))

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the records of all heads."""
        return {
            "schema": SCHEMA,
            "metric": "accuracy",
            "units": list(self.units),
            "baseline": self.baseline,
            "methods": {row.method: _plain(row) for row in self.rows},
            "points": [asdict(point) for point in self.points],
            "curves": [asdict(curve) for curve in self.curves],
            "records": list(self.records),
        }


def unit_of(record: HeadRecord) -> str:
    """Name store and seed of a head."""
    return f"{record['store']['path']} seed {record['seed']}"


def spread_of(values: Sequence[float]) -> float | None:
    """Return the sample deviation; None for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def _scores(method: str, records: Sequence[HeadRecord], others: Sequence[HeadRecord]) -> HeadScores:
    accuracy = {group: _accuracies(records, group) for group in GROUPS}
    of_others = {group: _accuracies(others, group) for group in COMPARED}
    seeds = {unit_of(record): record["seed"] for record in records}
    differences = {}
    for group in COMPARED if others[0]["method"] != method else ():
        shared = [unit for unit in accuracy[group] if unit in of_others[group]]
        pairs = [(accuracy[group][unit], of_others[group][unit]) for unit in shared]
        if pairs:
            steps = [own - other for own, other in pairs]
            differences[group] = Difference(
                mean=statistics.mean(steps),
                std=spread_of(steps),
                p_value=paired_p_value([own for own, _ in pairs], [other for _, other in pairs]),
                seeds=tuple(seeds[unit] for unit in shared),
            )
    of_all = [record["scores"]["test"]["all"] for record in records]
    return HeadScores(
        method=method,
        accuracy={group: tuple(values.values()) for group, values in accuracy.items() if values},
        top_5=tuple(scores["top_5"] for scores in of_all if scores["top_5"] is not None),
        seconds=tuple(record["seconds"] for record in records),
        differences=differences,
    )


def _accuracies(records: Sequence[HeadRecord], group: str) -> dict[str, float]:
    """Return the accuracy on a group in each unit that has examples of it."""
    tests = {unit_of(record): record["scores"]["test"] for record in records}
    return {unit: test[group]["accuracy"] for unit, test in tests.items() if group in test}


def _corrected(rows: Sequence[HeadScores]) -> tuple[HeadScores, ...]:
    """Correct the p-values of each group for the number of methods."""
    corrected = {}
    for group in COMPARED:
        tested = [row for row in rows if group in row.differences]
        values = holm([row.differences[group].p_value for row in tested])
        corrected[group] = dict(zip((row.method for row in tested), values, strict=True))
    return tuple(
        replace(
            row,
            differences={
                group: replace(difference, p_holm=corrected[group][row.method])
                for group, difference in row.differences.items()
            },
        )
        for row in rows
    )


def _plain(row: HeadScores) -> dict[str, Any]:
    groups = {
        group: {"values": list(values), "mean": statistics.mean(values), "std": spread_of(values)}
        for group, values in row.accuracy.items()
    }
    differences = {group: asdict(difference) for group, difference in row.differences.items()}
    return {"accuracy": groups, "top_5": list(row.top_5), "seconds": list(row.seconds), "differences": differences}
