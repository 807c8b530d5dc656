"""Plot of the result of a tuning. matplotlib is imported only for a plot."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from mnserve.bench.plot import plain
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.result import TuneResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of the Okabe-Ito palette, distinct for every kind of colour vision and in grey.
_CHOSEN, _NOW, _FINALIST, _OTHER, _BOUND = "#0072B2", "#E69F00", "#56B4E9", "0.7", "#D55E00"


def draw(result: TuneResult) -> Figure:
    """Draws throughput against latency, a point for each configuration, and the bound."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    goal, outcome = result.settings.goal, result.outcome
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    axes = figure.subplots()
    measured = {candidate: score for candidate in outcome.searched if (score := outcome.best(candidate)).loads}
    for label, color, size, members in _groups(result):
        scores = [measured[candidate] for candidate in members if candidate in measured]
        if scores:
            points = [score.tail_ms for score in scores], [score.rows_per_second for score in scores]
            axes.scatter(*points, s=size, color=color, label=plain(label), zorder=3)
    axes.axvline(goal.latency_ms, color=_BOUND, linewidth=1.5, label=f"bound {goal.latency_ms:g} ms")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize=7)
    axes.set_ylim(bottom=0.0)
    several = ", the worst of the loads" * (len(result.settings.loads) > 1)
    axes.set_xlabel(f"{goal.name} of a request (ms, log scale{several})")
    axes.set_ylabel("rows/s" + ", geometric mean of the loads" * (len(result.settings.loads) > 1))
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(plain(f"Configurations of {result.settings.model}"))
    figure.supxlabel("\n".join(textwrap.wrap(plain(result.caption), 110)), fontsize=8, color="0.35")
    return figure


def _groups(result: TuneResult) -> list[tuple[str, str, int, list[Candidate]]]:
    """Groups the candidates that are drawn alike: name, colour, size and members; each candidate once."""
    outcome = result.outcome
    marked = {outcome.chosen, outcome.current}
    finalists = [candidate for candidate in outcome.finals if candidate not in marked]
    others = [c for c in outcome.searched if c not in marked and c not in outcome.finals]
    groups: list[tuple[str, str, int, list[Candidate]]] = [
        ("measured once", _OTHER, 28, others),
        ("finalists", _FINALIST, 40, finalists),
    ]
    if outcome.current != outcome.chosen:
        groups.append((f"now: {outcome.current.label}", _NOW, 70, [outcome.current]))
    if outcome.chosen is not None:
        groups.append((f"chosen: {outcome.chosen.label}", _CHOSEN, 70, [outcome.chosen]))
    return groups
