"""How figures look: one palette and one way to draw, so that every figure of the package is of one kind.

Figures are drawn without pyplot: no window system, no global state. matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


def draw_svg(draw: Callable[[Figure], None], *, name: str, size: tuple[float, float], transparent: bool = False) -> str:
    """A figure as SVG; the same content gives the same bytes.

    Args:
        draw: puts axes and content into an empty figure.
        name: tells figures of one page apart: the ids inside the file depend on it.
        size: width and height in inches.
        transparent: whether the paper shows through.
    """
    import matplotlib
    from matplotlib.figure import Figure

    stream = BytesIO()
    with matplotlib.rc_context(_SETTINGS | {"svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(stream, format="svg", transparent=transparent, metadata={"Date": None, "Creator": None})
    return stream.getvalue().decode()


def class_colors(classes: int) -> list[str]:
    """A colour for each class: the palette where it suffices, else hues spread evenly."""
    if classes <= len(COLORS):
        return list(COLORS[:classes])
    from matplotlib.colors import to_hex

    shades = [colorsys.hsv_to_rgb(index / classes, 0.65, 0.8) for index in range(classes)]
    return [to_hex(shade) for shade in shades]


def plain(text: str) -> str:
    """Names may hold dollar signs, which would start mathematics."""
    return text.replace("$", r"\$")


def only_axes(figure: Figure) -> Axes:
    """The axes of a figure with a single plot."""
    return figure.add_subplot()
