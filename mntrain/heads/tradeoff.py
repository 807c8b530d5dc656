"""Trade-off of accuracy on classes of few training examples against accuracy on all classes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mntrain.heads.record import HeadRecord
from mntrain.plotting.style import COLORS, INK, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*XhphH<>"
_LINES = ("-", "--", ":")
# Methods whose setting moves accuracy between rare and frequent classes; a penalty or a number of votes does not.
_TRADES = frozenset({"bias", "fixed", "tau", "alpha"})


@dataclass(frozen=True, kw_only=True)
class TradeoffPoint:
    """Method as a point: mean test accuracies over stores and seeds, and their deviations.

    Args:
        method: name.
        few, all: means.
        few_std, all_std: sample deviations; None for one unit.
    """

    method: str
    few: float
    all: float
    few_std: float | None = None
    all_std: float | None = None


@dataclass(frozen=True, kw_only=True)
class TradeoffCurve:
    """Method over the values of a setting: mean test accuracies over stores and seeds.

    Args:
        method: name.
        setting: name of the setting.
        values: of the setting.
        few, all: a mean for each value.
    """

    method: str
    setting: str
    values: tuple[float, ...]
    few: tuple[float, ...]
    all: tuple[float, ...]


def points_of(records: Sequence[HeadRecord]) -> tuple[TradeoffPoint, ...]:
    """Return a point for each method, and for each classifier that a method is compared with; none without few."""
    made = {record["method"] for record in records}
    scores: dict[str, dict[tuple[str, int], Mapping[str, Any]]] = {}
    for record in records:
        scores.setdefault(record["method"], {})[_unit(record)] = record["scores"]["test"]
    for record in records:
        # Heads that share a store and a seed share this classifier, which counts once.
        if record["base"] not in made:
            scores.setdefault(record["base"], {})[_unit(record)] = record["base_scores"]["test"]
    points = []
    for method, tests in scores.items():
        pairs = [(test["few"]["accuracy"], test["all"]["accuracy"]) for test in tests.values() if "few" in test]
        if not pairs:
            continue
        few, of_all = zip(*pairs, strict=True)
        several = len(pairs) > 1
        points.append(
            TradeoffPoint(
                method=method,
                few=statistics.mean(few),
                all=statistics.mean(of_all),
                few_std=statistics.stdev(few) if several else None,
                all_std=statistics.stdev(of_all) if several else None,
            )
        )
    return tuple(points)


def _unit(record: HeadRecord) -> tuple[str, int]:
    """Return store and seed."""
    return record["store"]["path"], record["seed"]


def curves_of(records: Sequence[HeadRecord]) -> tuple[TradeoffCurve, ...]:
    """Return a curve for each sweep that all units of a method share, where its setting trades between groups."""
    found: dict[tuple[str, str, tuple[float, ...]], list[list[Mapping[str, Any]]]] = {}
    for record in records:
        for sweep in record["sweeps"] if record["method"].partition("-")[0] in _TRADES else ():
            key = (record["method"], sweep["name"], tuple(sweep["values"]))
            found.setdefault(key, []).append(sweep["test"])
    units = {record["method"]: sum(other["method"] == record["method"] for other in records) for record in records}
    curves = []
    for (method, setting, values), tests in found.items():
        if len(tests) < units[method] or any("few" not in scores for scores in tests[0]):
            continue
        few, of_all = (
            tuple(
                statistics.mean(of_unit[place][group]["accuracy"] for of_unit in tests) for place in range(len(values))
            )
            for group in ("few", "all")
        )
        curves.append(TradeoffCurve(method=method, setting=setting, values=values, few=few, all=of_all))
    return tuple(curves)


def draw_tradeoff(axes: Axes, points: Sequence[TradeoffPoint], curves: Sequence[TradeoffCurve]) -> None:
    """Draw curves as lines and methods as points with their deviations, in per cent."""
    colors = {point.method: COLORS[place % len(COLORS)] for place, point in enumerate(points)}
    places = {point.method: place for place, point in enumerate(points)}
    for curve in curves:
        color = colors.get(curve.method, INK)
        line = _LINES[places.get(curve.method, 0) // len(COLORS) % len(_LINES)]
        label = plain(f"{curve.method} over its {curve.setting}")
        x, y = ([100 * value for value in values] for values in (curve.all, curve.few))
        axes.plot(x, y, line, color=color, linewidth=1.2, marker=".", markersize=3, label=label)
    for place, point in enumerate(points):
        axes.errorbar(
            [100 * point.all],
            [100 * point.few],
            xerr=None if point.all_std is None else [100 * point.all_std],
            yerr=None if point.few_std is None else [100 * point.few_std],
            fmt=_MARKERS[place % len(_MARKERS)],
            color=colors[point.method],
            ecolor=INK,
            elinewidth=0.8,
            capsize=2,
            markeredgecolor=INK,
            markeredgewidth=0.6,
            linestyle="none",
            label=plain(point.method),
        )
    axes.set_xlabel("test accuracy on all classes (%)")
    axes.set_ylabel("test accuracy on classes of few (%)")
    axes.figure.legend(loc="outside right upper", fontsize=8)
