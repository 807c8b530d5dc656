"""Section of the coefficients of composed classes (Alpha Net, table 3)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure as Drawing

from mntrain.analysis.sections.content import Figure, Section, Table, figure
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.record import HeadRecord
from mntrain.plotting.style import COLORS, plain

_ROWS = 12  # classes of the table


def coefficients_section(heads: HeadComparison) -> Section | None:
    """Show what classes of few are composed of, in the first head of each method; None where none is composed."""
    composed: dict[str, HeadRecord] = {}
    for record in heads.records:
        if record["composition"] is not None:
            composed.setdefault(record["method"], record)
    if not composed:
        return None
    # Fixed coefficients are all alike, so a learned composition comes first.
    shown = max(composed.values(), key=lambda record: np.std([row[1:] for row in _values(record)]))
    count = len(_values(shown))
    return Section(
        anchor="coefficients",
        title="Coefficients of composed classes",
        text=(
            f"Coefficients of {shown['name']}: that of a class's own classifier, then those of its nearest base "
            f"classes (table 3 of Alpha Net). The table has {min(_ROWS, count)} of {count} classes.",
        ),
        figures=tuple(_histogram(record) for record in composed.values()),
        table=_table(shown),
        numbers={
            method: {
                "own": _summary([row[0] for row in _values(record)]),
                "neighbors": _summary([share for row in _values(record) for share in row[1:]]),
            }
            for method, record in composed.items()
        },
    )


def _values(record: HeadRecord) -> list[list[float]]:
    values: list[list[float]] = record["composition"]["coefficients"]
    return values


def _summary(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "least": min(values), "largest": max(values)}


def _table(record: HeadRecord) -> Table:
    composition = record["composition"]
    rows = tuple(
        (name, f"{shares[0]:.2f}", *(f"{other} {share:.2f}" for other, share in zip(others, shares[1:], strict=True)))
        for name, others, shares in zip(
            composition["classes"][:_ROWS], composition["neighbors"], composition["coefficients"], strict=False
        )
    )
    return Table(headings=("class", "own", *(f"neighbor {place}" for place in range(1, len(rows[0]) - 1))), rows=rows)


def _histogram(record: HeadRecord) -> Figure:
    own = [row[0] for row in _values(record)]
    others = [share for row in _values(record) for share in row[1:]]

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        least, largest = min(0.0, *own, *others), max(*own, *others)
        bins = np.linspace(least, largest + 1e-9, 31).tolist()
        axes.hist([own, others], bins=bins, color=list(COLORS[:2]), label=["own", "neighbors"], stacked=True)
        axes.set_xlabel("coefficient")
        axes.set_ylabel("number")
        axes.set_title(plain(record["method"]))
        axes.legend()

    return figure(
        f"coefficients-{record['method']}",
        draw,
        alt=f"Histogram of {len(own)} coefficients of classes' own classifiers, from {min(own):.2f} to {max(own):.2f}, "
        f"and of {len(others)} of neighbors, from {min(others):.2f} to {max(others):.2f}",
        caption=f"{record['method']}: coefficients of all composed classes",
        size=(3.8, 2.8),
    )
