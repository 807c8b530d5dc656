"""Figures of model cards: scores of splits and groups as tables."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mntrain.model_card.markdown import escaped, table

SPLITS: Final = ("validation", "test", "support")
"""Splits whose figures a card shows, where metrics have them."""
_SHARES: Final = ("accuracy", "balanced", "top1", "top5", "top_1", "top_5", "recall", "precision")
"""Words in the names of figures that are shares, such as ``accuracy_few``."""
_MOST_ROWS: Final = 40


def shown(name: str, value: Any) -> str:
    """Format a figure: counts with commas, shares in per cent, others with four significant digits; empty for None.

    Args:
        name: of the figure, which tells shares from values.
        value: number, text, truth value or None.
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escaped(value, 60)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:.2%}" if 0 <= value <= 1 and any(word in name for word in _SHARES) else f"{value:.4g}"


def score_tables(metrics: Mapping[str, Any]) -> list[str]:
    """Make a table of the scores of splits, and one for each split's groups or targets.

    Args:
        metrics: figures by split, as ``config.json`` holds them; entries of other kinds are left out.
    """
    splits = {split: metrics[split] for split in SPLITS if isinstance(metrics.get(split), Mapping)}
    return figure_tables(splits, "split")


def figure_tables(rows: Mapping[str, Any], what: str, *, depth: int = 2) -> list[str]:
    """Make a table whose rows are named figures, and further ones for figures that have parts.

    Args:
        rows: name → figures by name; names come from users.
        what: kind of the rows, the head of the first column.
        depth: levels of parts that are followed.
    """
    found = dict.fromkeys(name for figures in rows.values() for name, _ in _plain(figures))
    columns = sorted(found, key=lambda name: (name != "examples", name == "loss"))
    tables = []
    if columns:
        head = [what, *(escaped(name.replace("_", " "), 40) for name in columns)]
        listed = [
            [escaped(row, 60), *(shown(name, figures.get(name)) for name in columns)]
            for row, figures in list(rows.items())[:_MOST_ROWS]
        ]
        more = "" if len(rows) <= _MOST_ROWS else f"\n\n{len(rows) - _MOST_ROWS:,} more are in config.json."
        tables.append(table(head, listed) + more)
    for row, figures in rows.items():
        for name, parts in figures.items():
            inner = _of_parts(parts)
            if depth > 0 and inner:
                title = f"{escaped(row, 60)}, {escaped(name.replace('_', ' '), 40)}:"
                tables.append("\n\n".join([title, *figure_tables(inner, "part", depth=depth - 1)]))
    return tables


def _of_parts(parts: Any) -> dict[str, Any]:
    """Return parts that have figures of their own; a mapping to plain figures is one row each."""
    if not isinstance(parts, Mapping):
        return {}
    if any(isinstance(part, Mapping) for part in parts.values()):
        return {str(name): part for name, part in parts.items() if isinstance(part, Mapping)}
    return {str(name): {"value": part} for name, part in parts.items() if isinstance(part, int | float | None)}


def _plain(figures: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in figures.items() if isinstance(value, int | float | str))
