"""Draw a comparison: every seed and the mean, variant by variant or against the swept value."""

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mntrain.comparison.results import Comparison
from mntrain.comparison.row import Row
from mntrain.plotting.style import COLORS, INK, draw_svg, plain


def draw_comparison(comparison: Comparison) -> str:
    """Draw an SVG with a panel of the variants and a panel for each sweep."""
    sweeps = comparison.options.sweeps
    named = [row for row in comparison.rows if row.variant in {variant.name for variant in comparison.options.variants}]
    panels = bool(named) + len(sweeps)
    factor = 100 if comparison.metric.percent else 1

    def draw(figure: Figure) -> None:
        axes = list(figure.subplots(1, panels, squeeze=False)[0])
        if named:
            _draw_variants(axes.pop(0), comparison, named)
        rows = {row.variant: row for row in comparison.rows}
        for panel, sweep in zip(axes, sweeps, strict=True):
            scores = [[factor * score for score in rows[swept.name].scores] for swept in sweep.variants()]
            draw_sweep(panel, sweep.field, sweep.values, scores, _label(comparison))

    height = max(3.0, 1.2 + 0.45 * len(named))
    return draw_svg(draw, name=f"compare-{comparison.options.stem}", size=(6.5 * panels, height))


def _draw_variants(axes: Axes, comparison: Comparison, rows: list[Row]) -> None:
    factor = 100 if comparison.metric.percent else 1
    for position, row in enumerate(rows):
        scores = [factor * score for score in row.scores]
        axes.plot(scores, [position] * len(scores), "o", color=COLORS[0], alpha=0.55, markersize=6)
        if row.mean is not None:
            mean = factor * row.mean
            axes.plot([mean], [position], "|", color=INK, markersize=18, markeredgewidth=2)
            axes.annotate(f"{mean:.4g}", (mean, position), (0, 11), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [plain(row.variant) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(_label(comparison))
    axes.set_title("a dot for each seed, a bar for the mean")


def draw_sweep(axes: Axes, field: str, values: Sequence[str], scores: Sequence[Sequence[float]], label: str) -> None:
    """Draw every seed and the mean against the swept value, on a numeric axis where all values are numbers.

    Args:
        axes: empty axes.
        field: swept field.
        values: values of the field as written.
        scores: scores of all seeds, for each value; empty where no run has finished.
        label: label of the scores.
    """
    positions = sweep_places(values)
    for position, scores_of_value in zip(positions, scores, strict=True):
        axes.plot([position] * len(scores_of_value), scores_of_value, "o", color=COLORS[0], alpha=0.55)
    means = sorted(
        (position, statistics.mean(scores_of_value))
        for position, scores_of_value in zip(positions, scores, strict=True)
        if scores_of_value
    )
    axes.plot([position for position, _ in means], [mean for _, mean in means], "-", color=INK, linewidth=1.2)
    if min(positions) > 0 and max(positions) / min(positions) > 20:
        axes.set_xscale("log")
    axes.set_xticks(positions, [plain(value) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(plain(field))
    axes.set_ylabel(label)


def sweep_places(values: Sequence[str]) -> list[float]:
    """Return the positions of the values of a sweep on an axis: the numbers themselves, or 0, 1, …"""
    try:
        return [float(value) for value in values]
    except ValueError:
        return [float(index) for index in range(len(values))]


def _label(comparison: Comparison) -> str:
    return f"test {comparison.metric.name}{' (%)' if comparison.metric.percent else ''}"
