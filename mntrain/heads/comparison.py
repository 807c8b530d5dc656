"""Comparison of heads: scores by group of classes in every store, and paired differences."""

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
from mntrain.heads.units import Units, spread_of

COMPARED = ("few", "all")
"""Groups whose differences to the baseline are tested."""


@dataclass(frozen=True, kw_only=True)
class UnitDifference(Difference):
    """Differences of a method to the baseline, unit by unit.

    Args:
        mean, std, p_value, p_holm: over the units; no p for one unit, or where all differences are equal.
        seeds: of the heads; averaged within a store, where units are stores.
        units: stores, or seeds of one, that both have scores in.
    """

    units: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class HeadScores:
    """Scores of one method in all units, which are stores or the seeds of one.

    Args:
        method: name.
        accuracy: group → test accuracy in every unit that has examples of it; a group without any is left out.
        top_5: share of test examples of all classes among the five likeliest, in every unit; empty for few classes.
        seconds: of making a head, in every unit.
        differences: group → difference to the baseline; empty for the baseline itself.
    """

    method: str
    accuracy: Mapping[str, tuple[float, ...]]
    top_5: tuple[float, ...]
    seconds: tuple[float, ...]
    differences: Mapping[str, UnitDifference]


@dataclass(frozen=True, kw_only=True)
class HeadComparison:
    """Comparison of all heads.

    Args:
        records: of every head.
        units: what scores are told and tested over.
        baseline: method that differences are taken to.
        rows: scores of each method.
        points: each method as a point of the trade-off.
        curves: methods over the values of a setting.
    """

    records: tuple[HeadRecord, ...]
    units: Units
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
        units = Units.of(records)
        rows = [_scores(units, by_method[method], by_method[chosen]) for method in methods]
        return cls(
            records=tuple(records),
            units=units,
            baseline=chosen,
            rows=_corrected(rows),
            points=points_of(records),
            curves=curves_of(records),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that have examples."""
        return tuple(group for group in GROUPS if any(group in row.accuracy for row in self.rows))

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the records of all heads."""
        return {
            "schema": SCHEMA,
            "metric": "accuracy",
            "unit": "store" if self.units.are_stores else "seed",
            "units": list(self.units.names),
            "baseline": self.baseline,
            "methods": {row.method: _plain(row) for row in self.rows},
            "points": [asdict(point) for point in self.points],
            "curves": [asdict(curve) for curve in self.curves],
            "records": list(self.records),
        }


def _scores(units: Units, records: Sequence[HeadRecord], others: Sequence[HeadRecord]) -> HeadScores:
    """Score a method, and pair it with the baseline, whose records are ``others``."""
    method = records[0]["method"]
    accuracy = {group: units.accuracies(records, group) for group in GROUPS}
    differences = {}
    for group in COMPARED if others[0]["method"] != method else ():
        own, other = accuracy[group], units.accuracies(others, group)
        if shared := [unit for unit in own if unit in other]:
            steps = [own[unit] - other[unit] for unit in shared]
            differences[group] = UnitDifference(
                mean=statistics.mean(steps),
                std=spread_of(steps),
                p_value=paired_p_value([own[unit] for unit in shared], [other[unit] for unit in shared]),
                seeds=tuple(dict.fromkeys(record["seed"] for record in records if units.name(record) in shared)),
                units=tuple(shared),
            )
    top_5 = units.means((record, record["scores"]["test"]["all"]["top_5"]) for record in records)
    return HeadScores(
        method=method,
        accuracy={group: tuple(values.values()) for group, values in accuracy.items() if values},
        top_5=tuple(top_5.values()),
        seconds=tuple(units.means((record, record["seconds"]) for record in records).values()),
        differences=differences,
    )


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
