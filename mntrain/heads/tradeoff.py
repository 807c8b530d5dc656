"""Trade-off of accuracy on classes of few training examples against accuracy on all classes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mntrain.heads.record import HeadRecord
from mntrain.heads.shared_sweeps import shared_sweeps
from mntrain.heads.units import Units, spread_of
from mntrain.plotting.style import COLORS, INK, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*XhphH<>"
_LINES = ("-", "--", ":")
# Methods whose setting moves accuracy between rare and frequent classes; a penalty or a number of votes does not.
_TRADES = frozenset({"bias", "fixed", "tau", "alpha"})


@dataclass(frozen=True, kw_only=True)
class TradeoffPoint:
    """Method as a point: mean test accuracies over stores, or seeds of one, and their deviations.

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
    """Method over the values of a setting: mean test accuracies over stores, or seeds of one.

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
    """Return a point for each method, and for each classifier that a method is compared with; none without few.

    Stores without test rows of few are left out of both means.
    """
    units = Units.of(records)
    made = dict.fromkeys(record["method"] for record in records)
    bases = dict.fromkeys(record["base"] for record in records if record["base"] not in made)
    # Heads that share a store and a seed share the classifier they are compared with, so averages count it once.
    own = [(name, "scores", [record for record in records if record["method"] == name]) for name in made]
    others = [(name, "base_scores", [record for record in records if record["base"] == name]) for name in bases]
    points = []
    for name, scores, of_method in [*own, *others]:
        few, of_all = (units.accuracies(of_method, group, scores) for group in ("few", "all"))
        if few:
            shared = [of_all[unit] for unit in few]
            points.append(
                TradeoffPoint(
                    method=name,
                    few=statistics.mean(few.values()),
                    all=statistics.mean(shared),
                    few_std=spread_of(list(few.values())),
                    all_std=spread_of(shared),
                )
            )
    return tuple(points)


def curves_of(records: Sequence[HeadRecord]) -> tuple[TradeoffCurve, ...]:
    """Return a curve for each sweep whose setting trades between groups, over the stores that points are taken over."""
    curves = []
    for sweep in shared_sweeps(records):
        few = sweep.means("test", "few")
        if few and sweep.method.partition("-")[0] in _TRADES:
            of_all = sweep.means("test", "all", within="few")
            curves.append(
                TradeoffCurve(method=sweep.method, setting=sweep.setting, values=sweep.values, few=few, all=of_all)
            )
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
