"""Write a cross-validation as a table."""

from rich.console import Console

from mntrain.crossval.methods import tested, title
from mntrain.crossval.results import SIGNIFICANCE, Crossval, Scores, SetResult
from mntrain.result_table import ResultTable


def headings(result: Crossval) -> list[str]:
    """Return a heading for each column of :func:`cells`."""
    families = [title(family) for family in result.options.families]
    tests = [f"p ({title(measured)}, {title(other)})" for measured, other in _others(result)]
    decay = [f"weight decay ({', '.join(title(family) for family in result.options.networks)})"]
    return ["data set", "n", "d", "layers × units", *(decay if _has_decays(result) else []), *families, *tests]


def cells(result: Crossval, row: SetResult) -> list[str]:
    """Write the row of a data set or of one of its targets; stars mark the smallest mean and significant p-values."""
    architecture, settings = row.choice.architecture, row.choice.settings
    chosen = ["" if architecture is None else f"{architecture.layers} × {architecture.units}"]
    if _has_decays(result):
        chosen_settings = (settings.get(family) for family in result.options.networks)
        chosen.append(", ".join("–" if setting is None else f"{setting.decay:g}" for setting in chosen_settings))
    scores_of = {scores.family: scores for scores in row.scores}
    scores = [_score(scores_of.get(family), best=family == row.best) for family in result.options.families]
    tests = [_p_values(row, other) for _, other in _others(result)]
    return [row.name, f"{row.rows:,}", str(row.features), *chosen, *scores, *tests]


def result_table(result: Crossval) -> ResultTable:
    """Make the table, with a row for each data set and for each of several targets."""
    rows = [cells(result, row) for row in result.rows]
    return ResultTable(headings=headings(result), rows=rows, caption=caption(result))


def print_crossval(console: Console, result: Crossval) -> None:
    """Print the table with its caption, the folder of the result, and the failed runs."""
    result_table(result).show(
        console,
        title="test mse",
        notes=[f"written to {result.options.folder}", *(f"failed: {failure}" for failure in result.failures)],
    )


def caption(result: Crossval) -> str:
    """Describe the figures of the table."""
    tested = (
        " p is that of a two-sided paired t-test over the folds; in brackets corrected by Holm's method for all tests "
        "on the data sets, of targets for those on the targets of one set. "
        f"Both are marked (*) below {SIGNIFICANCE}."
        if _others(result)
        else ""
    )
    several = any(len(one.targets) > 1 for one in result.sets)
    together = " The row of a data set with several targets is their mean." if several else ""
    return (
        f"Mean squared error of standardised targets, mean ± sample deviation over {result.options.folds} folds; the "
        f"smallest mean is marked (*).{together}{tested}"
    )


def _score(scores: Scores | None, *, best: bool) -> str:
    return "failed" if scores is None else f"{scores.mean:.4f} ± {scores.std:.4f}{' *' if best else ''}"


def _has_decays(result: Crossval) -> bool:
    return bool(result.options.decays and result.options.networks)


def _others(result: Crossval) -> list[tuple[str, str]]:
    """Pair the method that is tested with each of the others."""
    families = result.options.families
    measured = tested(families)
    return [] if measured is None else [(measured, family) for family in families if family != measured]


def _p_values(row: SetResult, other: str) -> str:
    value, corrected = row.p_value(other), row.p_holm.get(other)
    if value is None:
        return ""
    return _p_value(value) if corrected is None else f"{_p_value(value)} ({_p_value(corrected)})"


def _p_value(value: float) -> str:
    text = f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
    return f"{text}{' *' if value < SIGNIFICANCE else ''}"
