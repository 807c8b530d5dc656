"""Table of methods on several sets, with paired tests against the best linear one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from heads.scored import Scored
from mntrain.comparison.paired import holm, paired_p_value
from mntrain.result_table import ResultTable

LINEAR = ("linear-dot", "linear-cosine", "logistic")
Results = Mapping[str, Mapping[str, Sequence[Scored]]]
"""Set → row → results of the seeds, in their order."""


def results_table(results: Results, rows: Sequence[str]) -> ResultTable:
    """Write accuracy of every row on every set: mean ± deviation over seeds, in percent; best linear one marked."""
    best = {name: best_linear(found) for name, found in results.items()}
    cells = [
        [row, *(_cell(found.get(row, ()), marked=best[name] == row) for name, found in results.items())] for row in rows
    ]
    return ResultTable(
        headings=["", *results],
        rows=cells,
        caption="Test accuracy in percent, mean ± deviation over seeds; (best) marks the best linear classifier.",
    )


def tests_table(results: Results, rows: Sequence[str]) -> ResultTable:
    """Write the difference of every row to the best linear one of its set, with p-values and Holm's correction."""
    keys, differences, p_values = [], [], []
    for name, found in results.items():
        linear = best_linear(found)
        for row in rows:
            if linear is None or row in LINEAR or row not in found:
                continue
            pairs = list(zip(found[row], found[linear], strict=False))
            ours, theirs = [pair[0].test for pair in pairs], [pair[1].test for pair in pairs]
            keys.append((name, row, linear))
            differences.append([100 * (one - other) for one, other in zip(ours, theirs, strict=True)])
            p_values.append(paired_p_value(ours, theirs))
    cells = [
        [
            f"{name}: {row} − {linear}",
            f"{statistics.mean(difference):+.2f}",
            "" if p is None else f"{p:.3f}",
            "" if corrected is None else f"{corrected:.3f}",
        ]
        for (name, row, linear), difference, p, corrected in zip(
            keys, differences, p_values, holm(p_values), strict=True
        )
    ]
    return ResultTable(
        headings=["difference in points", "mean", "p", "Holm"],
        rows=cells,
        caption="Paired two-sided t-test over the seeds; Holm corrects for all lines of the table.",
    )


def cost_table(results: Results, rows: Sequence[str]) -> ResultTable:
    """Write seconds of training with the chosen settings and learned numbers of every row, mean over sets and seeds."""
    cells = []
    for row in rows:
        scored = [one for found in results.values() for one in found.get(row, ())]
        if scored:
            seconds = statistics.mean(one.seconds for one in scored)
            numbers = statistics.mean(one.parameters for one in scored)
            cells.append([row, f"{seconds:.2f}", f"{numbers:,.0f}", str(scored[0].trials)])
    return ResultTable(
        headings=["", "seconds", "numbers kept", "trials"],
        rows=cells,
        caption="Seconds of one training, of runs with their checkpoints; kNN and SVM keep training examples.",
    )


def best_linear(found: Mapping[str, Sequence[Scored]]) -> str | None:
    """Name the linear row of the best mean over the seeds that all of them have; None without any."""
    present = [row for row in LINEAR if found.get(row)]
    seeds = min((len(found[row]) for row in present), default=0)
    return max(present, key=lambda row: statistics.mean(one.test for one in found[row][:seeds]), default=None)


def _cell(scored: Sequence[Scored], *, marked: bool) -> str:
    if not scored:
        return "–"
    values = [100 * one.test for one in scored]
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}{' (best)' if marked else ''}"
