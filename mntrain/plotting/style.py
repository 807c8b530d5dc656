"""Style of all figures: one palette and one way to draw.

Figures are drawn without pyplot: no window system, no global state. matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

import colorsys
import warnings
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe-Ito palette, distinct for every kind of colour vision; a little lighter, to be read on dark paper too.
COLORS = ("#2f7fc1", "#e0912f", "#2a9d7a", "#c9628f", "#8a6fc8", "#6b8e23", "#56b4e9", "#d55e00", "#b0a030", "#8c8c8c")
INK, GRID = "#303438", "#d8dadd"

# Any: the stubs of matplotlib know settings by literal names only.
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",  # text stays text: it can be searched and takes the reader's font
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
}
LARGEST = 1e30  # axes cannot be scaled to larger values


def draw_svg(draw: Callable[[Figure], None], *, name: str, size: tuple[float, float], themed: bool = False) -> str:
    """Draw a figure as SVG; the same content gives the same bytes.

    Args:
        draw: puts axes and content into an empty figure.
        name: unique in a page, since the ids inside the file depend on it.
        size: width and height in inches.
        themed: for a web page: transparent, text and axes in the page's colour, the grid in its variable --grid.
    """
    import matplotlib
    from matplotlib.figure import Figure

    stream = BytesIO()
    with matplotlib.rc_context(_SETTINGS | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The reader's font has letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(stream, format="svg", transparent=themed, metadata={"Date": None, "Creator": None})
    svg = stream.getvalue().decode()
    return svg.replace(INK, "currentColor").replace(GRID, "var(--grid)") if themed else svg


def class_colors(classes: int) -> list[str]:
    """Choose a colour for each class: the palette where it suffices, else hues spread evenly."""
    if classes <= len(COLORS):
        return list(COLORS[:classes])
    from matplotlib.colors import to_hex

    shades = [colorsys.hsv_to_rgb(index / classes, 0.65, 0.8) for index in range(classes)]
    return [to_hex(shade) for shade in shades]


def plain(text: str, longest: int = 60) -> str:
    """Make a name fit for a figure: cut to ``longest`` letters, with dollar signs that start no mathematics."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(letter if letter.isprintable() else " " for letter in short).replace("$", r"\$")


def draw_raster(draw: Callable[[Figure], None], *, size: tuple[float, float], dpi: int) -> NDArray[np.uint8]:
    """Draw a figure as pixels uint8 [height, width, 3].

    Args:
        draw: puts axes and content into an empty figure.
        size: width and height in inches.
        dpi: pixels per inch.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=size, dpi=dpi, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        draw(figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()  # type: ignore[no-untyped-call]
    return pixels
