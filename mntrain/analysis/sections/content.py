"""Content of a section of a report; the template of the page decides how it looks."""

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
    """Drawing of a section.

    Args:
        svg: element of the page.
        alt: description for readers who do not see the drawing.
        caption: text under the drawing.
        width: natural width in CSS pixels.
    """

    svg: str
    alt: str
    caption: str
    width: int


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Small image of the data.

    Args:
        source: data URI.
        alt: description of the image.
        mark: outline and sign.
        caption: a word under it.
    """

    source: str
    alt: str
    mark: Mark = ""
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """Pictures in a row.

    Args:
        label: text before the pictures.
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
    """Part of the page.

    Args:
        anchor: id in the page and key of the numbers.
        title: heading.
        text: paragraphs.
        facts: name and value of single figures.
        figures, strips, table: drawings, images and rows of text.
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
    # A page takes the element, not the document around it.
    return Figure(svg=svg[svg.index("<svg") :], alt=alt, caption=caption, width=round(96 * size[0]))


def picture(images: ImageArray, index: int, alt: str, mark: Mark = "", caption: str = "") -> Picture:
    """Embed image ``index`` of uint8 [N, channels, H, W] as PNG."""
    pixels = np.moveaxis(images[index], 0, -1)
    stream = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(stream, format="PNG")
    source = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    return Picture(source=source, alt=alt, mark=mark, caption=caption)


def percent(value: float | None) -> str:
    """Write a share as percentage; None as a dash."""
    return "–" if value is None else f"{value:.2%}"
