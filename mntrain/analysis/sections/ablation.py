"""Section of the ablations over S and T (Fig. 8): at inference, and of models trained anew."""

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


def ablation_section(report_input: ReportInput, test: Observed | None) -> Section | None:
    """Show S and T varied on this model, and every trained sweep; None where there is neither."""
    figures: list[Figure] = []
    text: list[str] = []
    numbers: dict[str, Any] = {}
    if report_input.adaptive is not None and test is not None and test.features is not None:
        ablation = ablate(report_input.adaptive, test.features, test.labels)
        temperature = report_input.adaptive.temperature
        text.append(
            f"At inference on {ablation.images:,} test {report_input.nouns}, with the trained weights as they are: "
            f"three random subsets of entries of each size, and temperatures around the trained one, "
            f"T = {temperature:g}."
        )
        figures += [
            _points("ablation-entries", "S, entries kept", ablation.entries),
            _points("ablation-temperature", "temperature T", ablation.temperatures),
        ]
        numbers["inference"] = asdict(ablation)
    if report_input.sweeps:
        text.append("Trained anew for every value: a dot for each seed, the line joins the means.")
        figures += [_trained(sweep, index) for index, sweep in enumerate(report_input.sweeps)]
        numbers["trained"] = [asdict(sweep) for sweep in report_input.sweeps]
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

    values = ", ".join(f"{point.value:g}: {mean:.1f} %" for point, mean in zip(points, means, strict=True))
    return figure(name, draw, alt=f"Test accuracy against {label}: {values}", caption=f"{label}, at inference")


def _trained(sweep: TrainedSweep, index: int) -> Figure:
    factor = 100 if sweep.percent else 1
    scores = [[factor * score for score in scores_of_value] for scores_of_value in sweep.scores]
    label = f"test {sweep.metric}{' (%)' if sweep.percent else ''}"
    means = ", ".join(
        f"{value}: {statistics.mean(scores_of_value):.4g}"
        for value, scores_of_value in zip(sweep.values, scores, strict=True)
        if scores_of_value
    )
    return figure(
        f"sweep-{index}",
        lambda drawing: draw_sweep(drawing.add_subplot(), sweep.field, sweep.values, scores, label),
        alt=f"{label} of recipe {sweep.recipe} against {sweep.field}: {means}",
        caption=f"{sweep.field}, trained anew on {sweep.recipe}",
    )
