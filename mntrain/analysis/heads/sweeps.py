"""Section of scores over the values of a setting (Alpha Net, figures 5 and 7 to 12)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.sections.content import Figure, Section, figure
from mntrain.comparison.plot import sweep_places
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.groups import GROUPS
from mntrain.heads.shared_sweeps import SharedSweep, shared_sweeps
from mntrain.plotting.style import COLORS, INK, plain

_MOST_TICKS = 9


def sweeps_section(heads: HeadComparison) -> Section | None:
    """Draw every sweep of every method, as the mean over stores or seeds; None where there is none."""
    sweeps = shared_sweeps(heads.records)
    if not sweeps:
        return None
    return Section(
        anchor="sweeps",
        title="Scores over settings",
        text=(
            "Test accuracy by groups of classes. The dashed line is the validation accuracy on all classes, and "
            "vertical lines are the values that heads were made with.",
        ),
        figures=tuple(_sweep(place, sweep) for place, sweep in enumerate(sweeps)),
        numbers={
            f"{sweep.method} {sweep.setting}": {"values": list(sweep.values), "chosen": list(sweep.chosen)}
            for sweep in sweeps
        },
    )


def _label(sweep: SharedSweep, group: str) -> str:
    """Name a group, and how many units its line is of where some have no test row of it."""
    count, most = len(sweep.units_with("test", group)), len(sweep.units.names)
    return group if count == most else f"{group} ({count} of {most})"


def _per_cent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def _sweep(place: int, sweep: SharedSweep) -> Figure:
    values = [f"{value:g}" for value in sweep.values]
    places = sweep_places(values)

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        for color, group in zip(COLORS, GROUPS, strict=False):
            if means := sweep.means("test", group):
                axes.plot(places, _per_cent(means), ".-", color=color, linewidth=1.2, label=_label(sweep, group))
        validation = _per_cent(sweep.means("validation", "all"))
        axes.plot(places, validation, "--", color=INK, linewidth=1, label="validation, all")
        for chosen in sweep.chosen:
            if chosen is not None:
                axes.axvline(chosen, color=COLORS[-1], linewidth=0.8, linestyle=":")
        if min(places) > 0 and max(places) / min(places) > 20:
            axes.set_xscale("log")
        elif len(values) <= _MOST_TICKS:
            axes.set_xticks(places, values)
        axes.set_xlabel(plain(sweep.setting))
        axes.set_ylabel("accuracy (%)")
        axes.set_title(plain(sweep.method))
        axes.legend(fontsize=8)

    shown = _per_cent(sweep.means("test", "few") or sweep.means("test", "all"))
    return figure(
        f"sweep-{place}",
        draw,
        alt=f"Accuracy of {sweep.method} for {sweep.setting} from {values[0]} to {values[-1]}: {shown[0]:.1f} to "
        f"{shown[-1]:.1f} %",
        caption=f"{sweep.method} over its {sweep.setting}",
        size=(4.2, 3.2),
    )
