"""What a section of a report is made of; the page's template decides how it looks."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure as Drawing
from PIL import Image

from mntrain.data.images import ImageArray
from mntrain.plotting.style import draw_svg

Mark = Literal["", "right", "wrong", "query"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing.

    Args:
        svg: the drawing itself, to be put into the page.
        alt: what it shows, for readers who do not see it.
        caption: under it.
        width: natural width in CSS pixels.
    """

    svg: str
    alt: str
    caption: str
    width: int


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A small real image.

    Args:
        source: data URI.
        alt: which image it is.
        mark: outline and sign.
    """

    source: str
    alt: str
    mark: Mark = ""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """Pictures in a row.

    Args:
        label: before them.
        pictures: from left to right.
    """

    label: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text.

    Args:
        headings: of the columns; the first column names the row.
        rows: cells.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page.

    Args:
        anchor: id in the page and key of the numbers.
        title: heading.
        text: paragraphs.
        facts: name and value of single figures.
        figures, strips, table: what there is to see.
        folded: title and preformatted text that is shown on demand.
        numbers: plain values for ``--json``.
    """

    anchor: str
    title: str
    text: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    figures: tuple[Figure, ...] = ()
    strips: tuple[Strip, ...] = ()
    table: Table | None = None
    folded: tuple[str, str] | None = None
    numbers: dict[str, Any] = field(default_factory=dict)


def figure(
    name: str, draw: Callable[[Drawing], None], *, alt: str, caption: str, size: tuple[float, float] = (4.6, 3.4)
) -> Figure:
    """Draw a figure for the page; ``size`` is in inches."""
    svg = draw_svg(draw, name=name, size=size, themed=True)
    # The page is HTML: it wants the element, not the document around it.
    return Figure(svg=svg[svg.index("<svg") :], alt=alt, caption=caption, width=round(96 * size[0]))


def picture(images: ImageArray, index: int, alt: str, mark: Mark = "") -> Picture:
    """Image ``index`` of uint8 [N, channels, H, W] as PNG inside the page."""
    pixels = np.moveaxis(images[index], 0, -1)
    stream = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(stream, format="PNG")
    source = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    return Picture(source=source, alt=alt, mark=mark)


def percent(value: float | None) -> str:
    """A share as text."""
    return "–" if value is None else f"{value:.2%}"
