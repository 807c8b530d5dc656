"""Table of the result of a tuning, for a terminal or a log."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from mnserve.text.terminal import plain, plain_lines
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.result import TuneResult


def print_result(result: TuneResult, console: Console) -> None:
    """Prints one row for each configuration, the best first; then the machine, the notes and the verdict."""
    goal, outcome = result.settings.goal, result.outcome
    title = f"{result.settings.model}: {goal.name} within {goal.latency_ms:g} ms"
    table = Table(title=plain(title), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("", no_wrap=True)
    batching = outcome.current.max_batch_size > 0
    for heading in (*(("batch", "delay\nms") if batching else ()), "instances", "threads"):
        table.add_column(heading, justify="right", no_wrap=True)
    several = len(result.settings.loads) > 1
    for callers in result.settings.loads:
        load = f" @{callers}" if several else ""
        for heading in (f"p50{load}\nms", f"{goal.name}{load}\nms", f"rows/s{load}"):
            table.add_column(heading, justify="right", overflow="fold")
    table.add_column("bound", no_wrap=True)
    ranked = sorted(outcome.searched, key=lambda c: (c not in outcome.finals, outcome.best(c).rank(goal)))
    for index, candidate in enumerate(ranked):
        style = "bold" if candidate == outcome.chosen else ""
        is_finalist = candidate in outcome.finals
        ends_section = is_finalist and (index + 1 == len(ranked) or ranked[index + 1] not in outcome.finals)
        table.add_row(*_cells(result, candidate, batching=batching), style=style, end_section=ends_section)
    console.print(table)
    for sentence in (result.caption, *result.notes):
        console.print(plain_lines(sentence), soft_wrap=True)
    if outcome.chosen is not None:
        console.print(plain_lines(result.verdict), soft_wrap=True)
        console.print(plain_lines(result.done), soft_wrap=True)


def _cells(result: TuneResult, candidate: Candidate, *, batching: bool) -> list[str]:
    outcome, goal = result.outcome, result.settings.goal
    marks = {(True, False): "chosen", (False, True): "now", (True, True): "stays", (False, False): ""}
    cells = [marks[candidate == outcome.chosen, candidate == outcome.current]]
    if batching:
        cells += [str(candidate.max_batch_size), f"{candidate.delay_us / 1e3:g}"]
    cells += [str(candidate.instances), str(candidate.threads)]
    score = outcome.best(candidate)
    for load in score.loads:
        cells += [f"{load.p50_ms:.2f}", f"{load.tail_ms:.2f}", f"{load.rows_per_second:,.0f}"]
    if not score.loads:
        cells += ["–"] * (3 * len(result.settings.loads))
    bound = "failed" if score.fault else "kept" if score.keeps_bound(goal) else "missed"
    if score.loads and not score.has_enough_calls(goal):
        bound += "?"
    return [*cells, bound]
