"""Pictures of an evaluation: a confusion matrix, or estimates against the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mntrain.evaluation.classification import ClassificationFigures
from mntrain.evaluation.regression import ValueFigures
from mntrain.plotting.style import COLORS, INK, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUMBERED = 30  # classes up to which cells hold their counts
_NAMED = 120  # classes up to which every name is written
_CELL = 0.42  # inches
_LETTERS = 32  # of a name
_POINTS = 5000
_PANELS = 3  # in a row
_DARK = 0.55  # share from which numbers in a cell are white


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure that is not drawn yet.

    Args:
        name: of its file.
        draw: puts axes and content into an empty figure.
        size: width and height in inches.
    """

    name: str
    draw: Callable[[Figure], None]
    size: tuple[float, float]


def picture(figures: ClassificationFigures | ValueFigures) -> Picture:
    """Choose the picture of some figures."""
    return _confusion(figures) if isinstance(figures, ClassificationFigures) else _scatter(figures)


def _confusion(figures: ClassificationFigures) -> Picture:
    """Rows are true classes; a cell's color is its share of the row."""
    classes = len(figures.names)
    side = min(max(_CELL * classes, 1.6) if classes <= _NUMBERED else max(11.0, 0.105 * classes), 20.0)
    font = 9.0 if classes <= _NUMBERED else max(4.5, min(8.0, 62 * side / classes))
    letters = max(min(len(name), _LETTERS) for name in figures.names)
    margin = 0.6 + 0.0085 * font * letters

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        counts = figures.confusion
        rows = counts.sum(axis=1, keepdims=True)
        shares = counts / np.maximum(rows, 1)
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
        axes.grid(visible=False)
        step = 1 if classes <= _NAMED else -(-classes // _NAMED)
        shown = np.arange(0, classes, step)
        names = [plain(figures.names[number], _LETTERS) for number in shown]
        axes.set_xticks(shown, names, rotation=90, fontsize=font)
        axes.set_yticks(shown, names, fontsize=font)
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")
        if classes <= _NUMBERED:
            _write_counts(axes, counts, shares)
        figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=40, label="share of the true class")

    return Picture(name="confusion", draw=draw, size=(side + margin + 1.0, side + margin))


def _write_counts(axes: Axes, counts: np.ndarray, shares: np.ndarray) -> None:
    for row, column in zip(*np.nonzero(counts), strict=True):
        count = int(counts[row, column])
        axes.text(
            column,
            row,
            str(count),
            ha="center",
            va="center",
            fontsize=9 if count < 1000 else 7 if count < 100_000 else 5,
            color="white" if shares[row, column] > _DARK else INK,
        )


def _scatter(figures: ValueFigures) -> Picture:
    """A panel for each target; of many rows some that are drawn evenly."""
    count = len(figures.names)
    columns = min(count, _PANELS)
    lines = -(-count // columns)
    chosen = np.unique(np.linspace(0, len(figures.truth) - 1, min(len(figures.truth), _POINTS)).astype(int))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(lines, columns, squeeze=False)
        for position, axes in enumerate(panels.flat):
            if position >= count:
                axes.set_visible(False)
                continue
            truth, estimates = figures.truth[chosen, position], figures.estimates[chosen, position]
            low, high = min(truth.min(), estimates.min()), max(truth.max(), estimates.max())
            axes.plot([low, high], [low, high], color=COLORS[7], linewidth=1)
            axes.scatter(truth, estimates, s=9, color=COLORS[0], alpha=0.45, linewidths=0)
            axes.set_aspect("equal", adjustable="datalim")
            found = figures.targets[position]
            score = "" if found.r2 is None else f", R² {found.r2:.3f}"
            axes.set_title(f"rmse {found.rmse:.4g}{score}")
            axes.set_xlabel(plain(figures.names[position], 40))
            axes.set_ylabel("estimate")

    return Picture(name="scatter", draw=draw, size=(4.4 * columns, 4.4 * lines))
