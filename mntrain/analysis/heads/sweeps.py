"""Section of scores over the values of a setting (Alpha Net, figures 5 and 7 to 12)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.sections.content import Figure, Section, figure
from mntrain.comparison.plot import sweep_places
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.groups import GROUPS
from mntrain.plotting.style import COLORS, INK, plain

_Sweeps = Sequence[Mapping[str, Any]]
_MOST_TICKS = 9


def sweeps_section(heads: HeadComparison) -> Section | None:
    """Draw every sweep of every method, as the mean over stores and seeds; None where there is none."""
    found: dict[tuple[str, str, tuple[float, ...]], list[Mapping[str, Any]]] = {}
    for record in heads.records:
        for sweep in record["sweeps"]:
            found.setdefault((record["method"], sweep["name"], tuple(sweep["values"])), []).append(sweep)
    if not found:
        return None
    return Section(
        anchor="sweeps",
        title="Scores over settings",
        text=(
            "Test accuracy by groups of classes. The dashed line is the validation accuracy on all classes, and "
            "vertical lines are the values that heads were made with.",
        ),
        figures=tuple(
            _sweep(place, method, name, sweeps) for place, ((method, name, _), sweeps) in enumerate(found.items())
        ),
        numbers={
            f"{method} {name}": {"values": list(values), "chosen": [sweep["chosen"] for sweep in sweeps]}
            for (method, name, values), sweeps in found.items()
        },
    )


def _means(sweeps: _Sweeps, part: str, group: str) -> list[float]:
    """Return the accuracy in per cent for each value, as the mean over units; empty where a group has no examples."""
    units = [sweep[part] for sweep in sweeps]
    if any(group not in scores for unit in units for scores in unit):
        return []
    return [100 * statistics.mean(unit[place][group]["accuracy"] for unit in units) for place in range(len(units[0]))]


def _sweep(place: int, method: str, name: str, sweeps: _Sweeps) -> Figure:
    values = [f"{value:g}" for value in sweeps[0]["values"]]
    places = sweep_places(values)

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        for color, group in zip(COLORS, GROUPS, strict=False):
            if means := _means(sweeps, "test", group):
                axes.plot(places, means, ".-", color=color, linewidth=1.2, label=group)
        axes.plot(places, _means(sweeps, "validation", "all"), "--", color=INK, linewidth=1, label="validation, all")
        for sweep in sweeps:
            if sweep["chosen"] is not None:
                axes.axvline(sweep["chosen"], color=COLORS[-1], linewidth=0.8, linestyle=":")
        if min(places) > 0 and max(places) / min(places) > 20:
            axes.set_xscale("log")
        elif len(values) <= _MOST_TICKS:
            axes.set_xticks(places, values)
        axes.set_xlabel(plain(name))
        axes.set_ylabel("accuracy (%)")
        axes.set_title(plain(method))
        axes.legend(fontsize=8)

    few = _means(sweeps, "test", "few") or _means(sweeps, "test", "all")
    return figure(
        f"sweep-{place}",
        draw,
        alt=f"Accuracy of {method} for {name} from {values[0]} to {values[-1]}: {few[0]:.1f} to {few[-1]:.1f} %",
        caption=f"{method} over its {name}",
        size=(4.2, 3.2),
    )
