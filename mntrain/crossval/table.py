"""A cross-validation as a table: on a terminal, and in markdown for documentation."""

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from mntrain.crossval.plan import KNN
from mntrain.crossval.results import MEASURED, SIGNIFICANCE, Crossval, SetResult

TITLES = {KNN: "kNN", "vanilla": "vanilla", MEASURED: "MN"}
_WIDEST = 1000


def headings(result: Crossval) -> list[str]:
    """One for each column of :func:`cells`."""
    families = [TITLES.get(family, family) for family in result.options.families]
    tests = [f"p (MN, {TITLES.get(other, other)})" for other in _others(result)]
    return ["data set", "n", "d", "layers × units", *families, *tests]


def cells(result: Crossval, row: SetResult) -> list[str]:
    """The row of one data set as texts; the smallest mean is marked by a star, a significant p-value too."""
    size = "" if row.architecture is None else f"{row.architecture.layers} × {row.architecture.units}"
    scores = [f"{one.mean:.4f} ± {one.std:.4f}{' *' if one.family == row.best else ''}" for one in row.scores]
    values = (row.p_value(other) for other in _others(result))
    tests = ["" if value is None else _p_value(value) for value in values]
    return [row.name, f"{row.rows:,}", str(row.features), size, *scores, *tests]


def print_crossval(console: Console, result: Crossval) -> None:
    """The table, what it is of, and where it is written."""
    table = Table(title="test mse", title_justify="left")
    for place, heading in enumerate(headings(result)):
        table.add_column(heading, justify="right" if place else "left", no_wrap=True)
    for row in result.sets:
        table.add_row(*(escape(cell) for cell in cells(result, row)))
    # Figures cut off by a narrow terminal would be worse than lines that it wraps.
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.width = max(console.width, needed)
    console.print(table)
    for line in (caption(result), f"written to {result.options.folder}"):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def markdown(result: Crossval) -> str:
    """A table for documentation, with the caption under it."""
    columns = headings(result)
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *(cells(result, row) for row in result.sets)]
    table = "\n".join(f"| {' | '.join(cell.replace('*', chr(92) + '*') for cell in line)} |" for line in lines)
    return f"{table}\n\n{caption(result)}\n"


def caption(result: Crossval) -> str:
    """What the figures are of."""
    tested = (
        f" p is that of a two-sided paired t-test over the folds, marked (*) below {SIGNIFICANCE}."
        if _others(result)
        else ""
    )
    return (
        f"Mean squared error of standardised targets, mean ± sample deviation over {result.options.folds} folds; the "
        f"smallest mean is marked (*).{tested}"
    )


def _others(result: Crossval) -> list[str]:
    families = result.options.families
    return [family for family in families if family != MEASURED] if MEASURED in families else []


def _p_value(value: float) -> str:
    shown = f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
    return f"{shown}{' *' if value < SIGNIFICANCE else ''}"
