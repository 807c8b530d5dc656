"""Write a comparison as a table."""

from dataclasses import replace

from rich.console import Console

from mntrain.comparison.acting_table import acting_table
from mntrain.comparison.results import Comparison
from mntrain.comparison.row import Row
from mntrain.result_table import ResultTable
from mntrain.training.evaluation import Metric


def headings(comparison: Comparison) -> list[str]:
    """Return a heading for each column of :func:`cells`."""
    columns = ["variant", *(f"seed {seed}" for seed in comparison.options.seeds), "mean ± std"]
    columns += [f"minus {comparison.options.baseline}", "p", "p (Holm)"]
    return [*columns, "unadapted", "parameters", "epochs", "seconds a run"]


def cells(comparison: Comparison, row: Row) -> list[str]:
    """Write the row of a variant; cells without a figure are empty."""
    metric = comparison.metric
    by_seed = {run.seed: metric.text(run.score) for run in row.runs}
    scores = [by_seed.get(seed, "failed") for seed in comparison.options.seeds]
    difference = row.difference
    texts = [
        row.variant,
        *scores,
        mean_std(metric, row.mean, row.std),
        "" if difference is None else mean_std(metric, difference.mean, difference.std, sign=True),
        *(("", "") if difference is None else (p_text(difference.p_value), p_text(difference.p_holm))),
        metric.text(row.unadapted_mean),
    ]
    if not row.runs:
        return [*texts, "", "", ""]
    seconds = sum(run.seconds for run in row.runs) / len(row.runs)
    return [*texts, f"{row.runs[0].parameters:,}", str(row.runs[0].epochs), f"{seconds:.0f}"]


def result_table(comparison: Comparison) -> ResultTable:
    """Make the table, with a row for each variant, and below these for each variant and each of several targets."""
    rows = [cells(comparison, row) for row in comparison.rows]
    for target, of_target in comparison.targets.items():
        rows += [cells(comparison, replace(row, variant=f"{row.variant}: {target}")) for row in of_target]
    return ResultTable(headings=headings(comparison), rows=rows, caption=caption(comparison))


def result_tables(comparison: Comparison) -> list[ResultTable]:
    """Make the table of scores, and where a variant adapts the table of what its adaptation does."""
    adapting = {row.variant: row.acting for row in comparison.rows if row.acting is not None}
    acting = acting_table(adapting, comparison.metric)
    return [result_table(comparison), *([] if acting is None else [acting])]


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the tables with their captions, the folder of the result, and the failed runs."""
    notes = [f"written to {comparison.options.folder}"]
    notes += [f"{variant}, seed {seed} failed: {reason}" for variant, seed, reason in comparison.failures]
    notes += [f"{row.variant}: {verdict}" for row in comparison.rows for verdict in row.verdicts]
    title = f"test {comparison.metric.name}, {comparison.options.stem}"
    scores, *others = result_tables(comparison)
    scores.show(console, title=title, notes=() if others else notes)
    for table in others:
        table.show(console, title="what adaptation does", notes=notes)


def caption(comparison: Comparison) -> str:
    """Describe the figures of the table."""
    options = comparison.options
    seeds = f"{len(options.seeds)} seed{'s' * (len(options.seeds) != 1)}"
    together = " Rows without the name of a target are the mean over several targets." if comparison.targets else ""
    return (
        f"Test {comparison.metric.name} of recipe {options.stem} on {comparison.examples:,} examples, {seeds}; the "
        f"differences to {options.baseline} are taken seed by seed, p is that of a two-sided paired t-test, "
        "uncorrected and corrected by Holm's method for the number of variants tested. "
        f"Unadapted is the mean score before adaptation.{together}"
    )


def p_text(value: float | None) -> str:
    """Write a p-value; empty for None."""
    return "" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def mean_std(metric: Metric, mean: float | None, std: float | None, *, sign: bool = False) -> str:
    """Write a mean score with its deviation, or with ``sign`` a mean difference; empty for None."""
    spread = "" if std is None else f" ± {metric.text(std)}"
    return f"{metric.text(mean, sign=sign)}{spread}"
