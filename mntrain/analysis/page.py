"""Render sections as one self-contained page."""

from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined

from mntrain.analysis.sections.content import Section
from mntrain.terminal_text import printable


def render(sections: Sequence[Section], *, title: str, subtitle: str, footer: str) -> str:
    """Render a page as HTML that loads nothing and runs nothing. Every text is escaped."""
    template = (resources.files("mntrain.analysis") / "page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False, finalize=_finalize)
    return environment.from_string(template).render(sections=sections, title=title, subtitle=subtitle, footer=footer)


def _finalize(value: object) -> object:
    """Escape direction marks and control characters in text; markup of ours has another type."""
    return printable(value) if type(value) is str else value
