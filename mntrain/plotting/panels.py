"""Many small pictures of numbers in one figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mntrain.plotting.style import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 4  # a phone shows no more
_SIDE = 1.05  # inches of a panel


@dataclass(frozen=True, kw_only=True)
class Shades:
    """Colours of numbers.

    Args:
        colors: map of matplotlib.
        low, high: numbers of the first and last colour.
        label: of the bar of colours; none without it.
    """

    colors: str
    low: float
    high: float
    label: str = ""

    @classmethod
    def around(cls, centre: float, values: list[NDArray[Any]], label: str = "") -> Shades:
        """Choose two hues that meet at ``centre``, far enough apart for all values; gaps are NaN."""
        reach = max((float(np.nanmax(np.abs(part - centre))) for part in values), default=0.0) or 1.0
        return cls(colors="RdBu_r", low=centre - reach, high=centre + reach, label=label)

    @classmethod
    def upwards(cls, values: list[NDArray[Any]], label: str = "") -> Shades:
        """Choose one scale from 0 for values that are not negative; gaps are NaN."""
        return cls(colors="viridis", low=0.0, high=max(float(np.nanmax(part)) for part in values) or 1.0, label=label)


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Small picture.

    Args:
        pixels: numbers [height, width], or an image uint8 [height, width, 3 or 1].
        title: above it.
        note: a second line of the title.
        shades: its own; None for those of the figure, which has the bar.
        mark: row and column, from 0 to 1, of a point to mark.
    """

    pixels: NDArray[Any]
    title: str = ""
    note: str = ""
    shades: Shades | None = None
    mark: tuple[float, float] | None = None


def panel_size(count: int, columns: int = _COLUMNS, side: float = _SIDE) -> tuple[float, float]:
    """Return width and height in inches for a number of panels, with room for titles and the bar of colours."""
    across = max(2, min(count, columns))
    return across * side + 0.75, -(-count // columns) * (side + 0.35) + 0.1


def draw_panels(drawing: Figure, panels: list[Panel], shades: Shades, columns: int = _COLUMNS) -> None:
    """Draw panels row by row into an empty figure.

    Args:
        drawing: the figure.
        panels: in reading order.
        shades: of panels that have none of their own.
        columns: panels in a row.
    """
    columns = min(columns, len(panels))
    grid = drawing.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    shown = None
    for axes, panel in zip(grid, panels, strict=False):
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
        axes.set_title("\n".join(plain(text, 24) for text in (panel.title, panel.note) if text), fontsize=8)
        if panel.pixels.ndim == 3:
            axes.imshow(panel.pixels.squeeze(-1) if panel.pixels.shape[-1] == 1 else panel.pixels, cmap="gray")
        else:
            own = panel.shades or shades
            drawn = axes.imshow(panel.pixels, cmap=own.colors, vmin=own.low, vmax=own.high, interpolation="nearest")
            shown = shown if panel.shades else drawn
        if panel.mark is not None:
            height, width = panel.pixels.shape[:2]
            row, column = panel.mark[0] * height - 0.5, panel.mark[1] * width - 0.5
            axes.plot([column], [row], "+", color="#ff3b30", markersize=9, markeredgewidth=1.6)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    if shown is not None and shades.label:
        drawing.colorbar(shown, ax=list(grid), fraction=0.05, pad=0.02, aspect=25, label=shades.label)
