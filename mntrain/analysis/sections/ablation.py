"""Ablations over S and T (Fig. 8): at inference, and of trained models."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.ablation import AblationPoint, ablate
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Figure, Section, figure
from mntrain.analysis.trained_sweeps import TrainedSweep
from mntrain.comparison.plot import draw_sweep
from mntrain.plotting.style import COLORS, INK


def ablation_section(subject: ReportInput, test: Observed | None) -> Section | None:
    """S and T varied on this model, and every trained sweep that was given; None where there is neither."""
    figures: list[Figure] = []
    text: list[str] = []
    numbers: dict[str, Any] = {}
    if subject.adaptive is not None and test is not None and test.features is not None:
        found = ablate(subject.adaptive, test.features, test.labels)
        temperature = subject.adaptive.temperature
        text.append(
            f"At inference on {found.images:,} test {subject.nouns}, with the trained weights as they are: three "
            f"random subsets of entries of each size, and temperatures around the trained one, T = {temperature:g}."
        )
        figures += [
            _points("ablation-entries", "S, entries kept", found.entries),
            _points("ablation-temperature", "temperature T", found.temperatures),
        ]
        numbers["inference"] = asdict(found)
    if subject.sweeps:
        text.append("Trained anew for every value: a dot for each seed, the line joins the means.")
        figures += [_trained(sweep, place) for place, sweep in enumerate(subject.sweeps)]
        numbers["trained"] = [asdict(sweep) for sweep in subject.sweeps]
    if not figures:
        return None
    return Section(
        anchor="ablations",
        title="Entries and temperature varied",
        text=tuple(text),
        figures=tuple(figures),
        numbers=numbers,
    )


def _points(name: str, label: str, points: Sequence[AblationPoint]) -> Figure:
    means = [100 * statistics.mean(point.accuracies) for point in points]

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.plot([point.value for point in points], means, color=INK, linewidth=1.2)
        for point in points:
            axes.plot(
                [point.value] * len(point.accuracies),
                [100 * accuracy for accuracy in point.accuracies],
                "o",
                color=COLORS[0],
                alpha=0.6,
            )
        if len(points) > 1:
            axes.set_xscale("log")
        axes.set_xticks([point.value for point in points], [f"{point.value:g}" for point in points])
        axes.minorticks_off()
        axes.set_xlabel(label)
        axes.set_ylabel("test accuracy (%)")

    said = ", ".join(f"{point.value:g}: {mean:.1f} %" for point, mean in zip(points, means, strict=True))
    return figure(name, draw, alt=f"Test accuracy against {label}: {said}", caption=f"{label}, at inference")


def _trained(sweep: TrainedSweep, place: int) -> Figure:
    factor = 100 if sweep.percent else 1
    scores = [[factor * score for score in found] for found in sweep.scores]
    label = f"test {sweep.metric}{' (%)' if sweep.percent else ''}"
    said = ", ".join(
        f"{value}: {statistics.mean(found):.4g}" for value, found in zip(sweep.values, scores, strict=True) if found
    )
    return figure(
        f"sweep-{place}",
        lambda drawing: draw_sweep(drawing.add_subplot(), sweep.field, sweep.values, scores, label),
        alt=f"{label} of recipe {sweep.recipe} against {sweep.field}: {said}",
        caption=f"{sweep.field}, trained anew on {sweep.recipe}",
    )
