"""Values of each column of a table: quantiles, and a histogram of training and test rows.

Shapes: N rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from mntrain.analysis.sections.content import Figure, Section, Table, figure
from mntrain.data.summary.columns import column_values
from mntrain.data.summary.record import ColumnEntry, RunRecord
from mntrain.data.tables import RowArray, TableData
from mntrain.plotting.style import COLORS, plain

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_HEADINGS = ("column", "role", "type", "missing", "lowest", "25 %", "middle", "75 %", "highest")
_FIGURES = 36
_ROWS = 1000
_BARS = 12


def columns_sections(data: TableData, record: RunRecord) -> list[Section]:
    """Make a section with a table of the columns, and one with a drawing of each."""
    columns = record["columns"]
    values, test = column_values(data), column_values(data, "test")
    rows = tuple(_row(column, values.get(column["name"])) for column in columns[:_ROWS])
    notes = "\n".join(f"{column['name']}: {column['note']}" for column in columns[:_ROWS] if column["note"])
    more = f" {len(columns) - _ROWS:,} more columns are not shown." if len(columns) > _ROWS else ""
    table = Section(
        anchor="columns",
        title="Columns",
        text=(f"Quantiles of the training rows that are not missing; missing values of all rows.{more}",),
        table=Table(headings=_HEADINGS, rows=rows),
        folded=("Notes", notes) if notes else None,
    )
    drawn = [column for column in columns if column["name"] in {*values, *data.categories}][:_FIGURES]
    shown = f"The first {_FIGURES} columns. " if len(columns) > _FIGURES else ""
    drawings = Section(
        anchor="values",
        title="Values",
        text=(f"{shown}Bars are training rows, lines test rows; both as shares.",),
        figures=tuple(
            _numbers(number, column, values[column["name"]], test[column["name"]])
            if column["name"] in values
            else _categories(number, column, data)
            for number, column in enumerate(drawn)
        ),
    )
    return [table, drawings]


def _row(column: ColumnEntry, values: RowArray | None) -> tuple[str, ...]:
    quantiles = ["" for _ in _QUANTILES]
    if values is not None and not np.isnan(values).all():
        quantiles = [f"{value:.4g}" for value in np.nanquantile(values, _QUANTILES)]
    kind = f"{column['kind']} ({column['distinct']:,})" if column["distinct"] else column["kind"]
    return (column["name"], column["role"], kind, f"{column['missing']:,}", *quantiles)


def _numbers(number: int, column: ColumnEntry, train: RowArray, test: RowArray) -> Figure:
    known, other = (part[~np.isnan(part)].astype(np.float64) for part in (train, test))
    edges = np.histogram_bin_edges(np.concatenate([known, other, [] if len(known) + len(other) else [0.0]]), bins=24)

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.stairs(_shares(np.histogram(known, edges)[0]), edges, fill=True, color=COLORS[0], alpha=0.55)
        axes.stairs(_shares(np.histogram(other, edges)[0]), edges, color=COLORS[1], linewidth=1.5)
        _name(axes, column)

    span = "" if column["range"] is None else f" from {column['range'][0]:.4g} to {column['range'][2]:.4g}"
    return _figure(number, draw, alt=f"Histogram of {column['name']}{span}")


def _categories(number: int, column: ColumnEntry, data: TableData) -> Figure:
    name = column["name"]
    vocabulary, at = data.categories[name], data.feature_names.index(name)
    train, test = (
        _shares(np.bincount(codes[codes >= 0].astype(np.int64), minlength=len(vocabulary)))
        for codes in (data.train.inputs[:, at], data.test.inputs[:, at])
    )
    order = np.argsort(-train, kind="stable")[:_BARS]

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.bar(range(len(order)), train[order], color=COLORS[0], alpha=0.55)
        axes.plot(range(len(order)), test[order], "_", color=COLORS[1], markersize=12, markeredgewidth=2)
        axes.set_xticks(range(len(order)), [plain(vocabulary[code], 12) for code in order], rotation=60, fontsize=8)
        _name(axes, column)

    return _figure(number, draw, alt=f"Shares of the {len(order)} most frequent of {len(vocabulary)} values of {name}")


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(counts / max(1, counts.sum()))


def _name(axes: Axes, column: ColumnEntry) -> None:
    axes.set_title(plain(column["name"], 30), fontsize=10)
    axes.tick_params(labelsize=8)


def _figure(number: int, draw: Callable[[Drawing], None], *, alt: str) -> Figure:
    return figure(f"column-{number}", draw, alt=alt, caption="", size=(2.4, 1.9))
