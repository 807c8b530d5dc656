"""How figures look: one palette and one way to draw, so that every figure of the package is of one kind.

Figures are drawn without pyplot: no window system, no global state. matplotlib is imported when one is drawn.
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

# Hues of the Okabe-Ito palette, apart for every kind of colour vision, a little lighter to be read on dark paper too.
COLORS = ("#2f7fc1", "#e0912f", "#2a9d7a", "#c9628f", "#8a6fc8", "#6b8e23", "#56b4e9", "#d55e00", "#b0a030", "#8c8c8c")
INK, GRID = "#303438", "#d8dadd"

# Any: the stubs of matplotlib know settings by literal names only.
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",  # words stay words: they can be searched and take the reader's font
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
LARGEST = 1e30  # values beyond it are more than axes can be scaled to


def draw_svg(draw: Callable[[Figure], None], *, name: str, size: tuple[float, float], themed: bool = False) -> str:
    """A figure as SVG; the same content gives the same bytes.

    Args:
        draw: puts axes and content into an empty figure.
        name: tells figures of one page apart: the ids inside the file depend on it.
        size: width and height in inches.
        themed: for a web page: transparent, words and axes in the page's colour, the grid in its variable --grid.
    """
    import matplotlib
    from matplotlib.figure import Figure

    stream = BytesIO()
    with matplotlib.rc_context(_SETTINGS | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The reader's font has the letters that the measuring one lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(stream, format="svg", transparent=themed, metadata={"Date": None, "Creator": None})
    svg = stream.getvalue().decode()
    return svg.replace(INK, "currentColor").replace(GRID, "var(--grid)") if themed else svg


def class_colors(classes: int) -> list[str]:
    """A colour for each class: the palette where it suffices, else hues spread evenly."""
    if classes <= len(COLORS):
        return list(COLORS[:classes])
    from matplotlib.colors import to_hex

    shades = [colorsys.hsv_to_rgb(index / classes, 0.65, 0.8) for index in range(classes)]
    return [to_hex(shade) for shade in shades]


def plain(text: str, longest: int = 60) -> str:
    """A name for a figure, cut to ``longest`` letters; its dollar signs do not start mathematics."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(letter if letter.isprintable() else " " for letter in short).replace("$", r"\$")


def draw_raster(draw: Callable[[Figure], None], *, size: tuple[float, float], dpi: int) -> NDArray[np.uint8]:
    """A figure as pixels uint8 [height, width, 3].

    Args:
        draw: puts axes and content into an empty figure.
        size: width and height in inches.
        dpi: pixels of an inch.
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
