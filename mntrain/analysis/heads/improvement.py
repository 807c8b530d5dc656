"""Sections of what a head gains on each class of few training examples (Alpha Net, figures 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from scipy.stats import spearmanr

from mntrain.analysis.sections.content import Figure, Section, figure
from mntrain.heads.comparison import HeadComparison
from mntrain.plotting.style import COLORS, INK, plain

_MOST = 12  # methods drawn


@dataclass(frozen=True, kw_only=True)
class ClassGains:
    """Gains of one method on the classes of few, over all stores and seeds.

    Args:
        method: name.
        base: method of the classifier that it is compared with.
        gains: test recall minus that of the classifier, in points of per cent.
        distances: of each class mean to the nearest base class mean; NaN where there is none.
    """

    method: str
    base: str
    gains: tuple[float, ...]
    distances: tuple[float, ...]


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
            "Spearman's rank correlation ρ and its p-value.",
        ),
        figures=tuple(_scatter(gains) for gains in drawn),
        numbers={gains.method: _correlation(gains) for gains in drawn},
    )


def class_gains(heads: HeadComparison) -> list[ClassGains]:
    """Gather the gains of each method that is compared with another."""
    found: dict[str, ClassGains] = {}
    for record in heads.records:
        if record["method"] == record["base"]:
            continue
        rows = [
            row
            for row in record["classes"]
            if row["group"] == "few" and row["recall"] is not None and row["base_recall"] is not None
        ]
        before = found.get(record["method"])
        found[record["method"]] = ClassGains(
            method=record["method"],
            base=record["base"],
            gains=(*(before.gains if before else ()), *(100 * (row["recall"] - row["base_recall"]) for row in rows)),
            distances=(*(before.distances if before else ()), *(_number(row["distance"]) for row in rows)),
        )
    return [gains for gains in found.values() if gains.gains][:_MOST]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _title(gains: ClassGains) -> str:
    return plain(f"{gains.method} minus {gains.base}")


def _histogram(gains: ClassGains) -> Figure:
    mean = float(np.mean(gains.gains))

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        reach = max(10.0, float(np.abs(gains.gains).max()))
        axes.hist(gains.gains, bins=np.linspace(-reach, reach, 22).tolist(), color=COLORS[0])
        axes.axvline(mean, color=INK, linewidth=1.2)
        axes.set_xlabel("gain in test recall (points)")
        axes.set_ylabel("classes of few")
        axes.set_title(_title(gains))

    return figure(
        f"gain-{gains.method}",
        draw,
        alt=f"Histogram of the gains of {gains.method} on {len(gains.gains)} classes of few, {mean:+.1f} points on "
        "average",
        caption=f"{gains.method}: {mean:+.2f} points on average over {len(gains.gains)} classes",
        size=(3.8, 2.8),
    )


def _correlation(gains: ClassGains) -> dict[str, Any]:
    known = np.isfinite(gains.distances)
    distances, values = np.array(gains.distances)[known], np.array(gains.gains)[known]
    if np.ptp(distances) == 0 or np.ptp(values) == 0:  # no order to correlate
        return {"spearman": None, "p": None}
    result = spearmanr(distances, values)
    return {"spearman": float(result.statistic), "p": float(result.pvalue)}


def _scatter(gains: ClassGains) -> Figure:
    found = _correlation(gains)
    told = "" if found["spearman"] is None else f"ρ = {found['spearman']:.2f}, p = {found['p']:.3f}"

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.plot(gains.distances, gains.gains, "o", color=COLORS[0], alpha=0.6, markersize=4)
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xlabel("distance to the nearest base class")
        axes.set_ylabel("gain in test recall (points)")
        axes.set_title(_title(gains))

    return figure(
        f"distance-{gains.method}",
        draw,
        alt=f"Gains of {gains.method} against distance; {told or 'no correlation'}",
        caption=f"{gains.method}: {told or 'all gains are equal'}",
        size=(3.8, 2.8),
    )
