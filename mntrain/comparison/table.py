"""A comparison as a table: on a terminal, and in markdown for documentation."""

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from mntrain.comparison.metric import ReportedMetric
from mntrain.comparison.results import Comparison, Row

_WIDEST = 1000


def headings(comparison: Comparison) -> list[str]:
    """One for each column of :func:`cells`."""
    columns = ["variant", *(f"seed {seed}" for seed in comparison.options.seeds), "mean ± std"]
    columns += [f"minus {comparison.options.baseline}", "p"]
    return [*columns, "unadapted", "parameters", "epochs", "seconds a run"]


def cells(comparison: Comparison, row: Row) -> list[str]:
    """The row of one variant as texts; empty where there is nothing to say."""
    metric = comparison.metric
    by_seed = {run.seed: metric.show(run.score) for run in row.runs}
    scores = [by_seed.get(seed, "failed") for seed in comparison.options.seeds]
    difference = row.difference
    found = [
        row.variant,
        *scores,
        _mean_std(metric, row.mean, row.std),
        "" if difference is None else _mean_std(metric, difference.mean, difference.std, sign=True),
        "" if difference is None or difference.p_value is None else f"{difference.p_value:.3f}",
        metric.show(row.unadapted_mean),
    ]
    if not row.runs:
        return [*found, "", "", ""]
    seconds = sum(run.seconds for run in row.runs) / len(row.runs)
    return [*found, f"{row.runs[0].parameters:,}", str(row.runs[0].epochs), f"{seconds:.0f}"]


def print_comparison(console: Console, comparison: Comparison) -> None:
    """The table, what it is of, where it is written, and which runs failed."""
    table = Table(title=f"test {comparison.metric.name}, {escape(comparison.options.stem)}", title_justify="left")
    for heading in headings(comparison):
        table.add_column(heading, justify="left" if heading == "variant" else "right", no_wrap=True)
    for row in comparison.rows:
        table.add_row(*(escape(cell) for cell in cells(comparison, row)))
    # Figures cut off by a narrow terminal would be worse than lines that it wraps.
    needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.width = max(console.width, needed)
    console.print(table)
    lines = [caption(comparison), f"written to {comparison.options.folder}"]
    lines += [f"{variant}, seed {seed} failed: {reason}" for variant, seed, reason in comparison.failures]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def markdown(comparison: Comparison) -> str:
    """A table for documentation, with the caption under it."""
    columns = headings(comparison)
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *(cells(comparison, row) for row in comparison.rows)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"{table}\n\n{caption(comparison)}\n"


def caption(comparison: Comparison) -> str:
    """What the figures are of."""
    options = comparison.options
    seeds = f"{len(options.seeds)} seed{'s' * (len(options.seeds) != 1)}"
    return (
        f"Test {comparison.metric.name} of recipe {options.stem} on {comparison.examples:,} examples, {seeds}; the "
        f"differences to {options.baseline} are taken seed by seed, p is that of a two-sided paired t-test."
    )


def _mean_std(metric: ReportedMetric, mean: float | None, std: float | None, *, sign: bool = False) -> str:
    spread = "" if std is None else f" ± {metric.show(std)}"
    return f"{metric.show(mean, sign=sign)}{spread}"
