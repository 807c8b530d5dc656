"""Sections of what a head gains on each class of few training examples (Alpha Net, figures 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from scipy.stats import spearmanr

from mntrain.analysis.sections.content import Figure, Section, figure
from mntrain.comparison.paired import paired_p_value
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.record import HeadRecord
from mntrain.plotting.style import COLORS, INK, plain

_MOST = 12  # methods drawn


@dataclass(frozen=True, kw_only=True)
class ClassGains:
    """Gains of one method on the classes of few of all stores, as means over the seeds of a store.

    Args:
        method: name.
        base: method of the classifier that it is compared with.
        gains: test recall minus that of the classifier, in points of per cent.
        distances: of each class mean to the nearest base class mean; NaN where there is none.
        stores: folder that each gain is of.
    """

    method: str
    base: str
    gains: tuple[float, ...]
    distances: tuple[float, ...]
    stores: tuple[str, ...]


def improvement_section(heads: HeadComparison) -> Section | None:
    """Draw a histogram of the gains of each method; None without classes of few, or without another classifier."""
    drawn = class_gains(heads)
    if not drawn:
        return None
    return Section(
        anchor="improvement",
        title="Gain of each class of few",
        text=(
            "Test recall of a class minus that of the classifier the method is compared with (figure 3 of Alpha Net); "
            "the line is the mean.",
        ),
        figures=tuple(_histogram(gains) for gains in drawn),
        numbers={
            gains.method: {
                "base": gains.base,
                "mean": float(np.mean(gains.gains)),
                "better": float(np.mean(np.array(gains.gains) > 0)),
                "worse": float(np.mean(np.array(gains.gains) < 0)),
                "gains": list(gains.gains),
            }
            for gains in drawn
        },
    )


def distance_section(heads: HeadComparison) -> Section | None:
    """Draw gains against the distance to the nearest base class; None where fewer than three classes have both."""
    drawn = [gains for gains in class_gains(heads) if np.isfinite(gains.distances).sum() > 2]
    if not drawn:
        return None
    return Section(
        anchor="distance",
        title="Gain against the distance to the nearest base class",
        text=(
            "Distance of a class mean to the nearest mean of a class of many or medium (figure 4 of Alpha Net), with "
            "Spearman's rank correlation ρ and its p-value. Distances of different stores have different units, so of "
            "several stores ρ is the mean of each store's own, and p that of a t-test of these.",
        ),
        figures=tuple(_scatter(gains) for gains in drawn),
        numbers={gains.method: _correlation(gains) for gains in drawn},
    )


def class_gains(heads: HeadComparison) -> list[ClassGains]:
    """Gather the gains of each method that is compared with another."""
    found: dict[str, dict[tuple[str, str], list[HeadRecord]]] = {}
    bases: dict[str, str] = {}
    for record in heads.records:
        if record["method"] == record["base"]:
            continue
        bases[record["method"]] = record["base"]
        classes = found.setdefault(record["method"], {})
        for row in record["classes"]:
            if row["group"] == "few" and row["recall"] is not None and row["base_recall"] is not None:
                classes.setdefault((record["store"]["path"], row["name"]), []).append(row)
    gains = [
        ClassGains(
            method=method,
            base=bases[method],
            # Recalls of several seeds are of the same rows, so they are one value.
            gains=tuple(100 * mean(row["recall"] - row["base_recall"] for row in rows) for rows in classes.values()),
            distances=tuple(_number(rows[0]["distance"]) for rows in classes.values()),
            stores=tuple(store for store, _ in classes),
        )
        for method, classes in found.items()
        if classes
    ]
    return gains[:_MOST]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _title(gains: ClassGains) -> str:
    return plain(f"{gains.method} minus {gains.base}")


def _histogram(gains: ClassGains) -> Figure:
    average = mean(gains.gains)

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        reach = max(10.0, float(np.abs(gains.gains).max()))
        axes.hist(gains.gains, bins=np.linspace(-reach, reach, 22).tolist(), color=COLORS[0])
        axes.axvline(average, color=INK, linewidth=1.2)
        axes.set_xlabel("gain in test recall (points)")
        axes.set_ylabel("classes of few")
        axes.set_title(_title(gains))

    return figure(
        f"gain-{gains.method}",
        draw,
        alt=f"Histogram of the gains of {gains.method} on {len(gains.gains)} classes of few, {average:+.1f} points on "
        "average",
        caption=f"{gains.method}: {average:+.2f} points on average over {len(gains.gains)} classes",
        size=(3.8, 2.8),
    )


def _correlation(gains: ClassGains) -> dict[str, Any]:
    """Correlate within each store; of several stores return the mean, and p of a t-test of theirs against 0."""
    found = []
    for store in dict.fromkeys(gains.stores):
        chosen = (np.array(gains.stores) == store) & np.isfinite(gains.distances)
        distances, values = np.array(gains.distances)[chosen], np.array(gains.gains)[chosen]
        # Two classes or equal values have no order to correlate.
        if len(values) > 2 and np.ptp(distances) > 0 and np.ptp(values) > 0:
            found.append(spearmanr(distances, values))
    if not found:
        return {"spearman": None, "p": None}
    each = [float(result.statistic) for result in found]
    p_value = float(found[0].pvalue) if len(set(gains.stores)) == 1 else paired_p_value(each, [0.0] * len(each))
    return {"spearman": mean(each), "p": p_value}


def _scatter(gains: ClassGains) -> Figure:
    found = _correlation(gains)
    told = "" if found["spearman"] is None else f"ρ = {found['spearman']:.2f}"
    told += "" if found["p"] is None else f", p = {found['p']:.3f}"

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        for place, store in enumerate(dict.fromkeys(gains.stores)):
            chosen = np.array(gains.stores) == store
            points = np.array(gains.distances)[chosen], np.array(gains.gains)[chosen]
            axes.plot(*points, "o", color=COLORS[place % len(COLORS)], alpha=0.6, markersize=4)
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xlabel("distance to the nearest base class")
        axes.set_ylabel("gain in test recall (points)")
        axes.set_title(_title(gains))

    return figure(
        f"distance-{gains.method}",
        draw,
        alt=f"Gains of {gains.method} against distance; {told or 'no correlation'}",
        caption=f"{gains.method}: {told or 'no order to correlate'}",
        size=(3.8, 2.8),
    )
