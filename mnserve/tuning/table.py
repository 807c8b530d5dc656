"""What was measured as a table, for a terminal or a log."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mnserve.tuning.candidate import Candidate
from mnserve.tuning.result import TuneResult


def print_result(result: TuneResult, console: Console) -> None:
    """One row for each configuration, the best ones first; then the machine, what was chosen, and the notes."""
    goal, outcome = result.settings.goal, result.outcome
    title = f"{result.settings.model}: {goal.name} within {goal.latency_ms:g} ms"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
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
    ranked = sorted(outcome.searched, key=lambda one: (one not in outcome.finals, outcome.best(one).rank(goal)))
    for place, one in enumerate(ranked):
        chosen = one == outcome.chosen
        last = one in outcome.finals and (place + 1 == len(ranked) or ranked[place + 1] not in outcome.finals)
        table.add_row(*_cells(result, one, batching=batching), style="bold" if chosen else "", end_section=last)
    console.print(table)
    for sentence in (result.caption, *result.notes):
        console.print(Text(sentence), soft_wrap=True)
    if outcome.chosen is not None:
        console.print(Text(result.verdict), soft_wrap=True)
        console.print(Text(result.done), soft_wrap=True)


def _cells(result: TuneResult, one: Candidate, *, batching: bool) -> list[str]:
    outcome, goal = result.outcome, result.settings.goal
    marks = {(True, False): "chosen", (False, True): "now", (True, True): "stays", (False, False): ""}
    cells = [marks[one == outcome.chosen, one == outcome.current]]
    if batching:
        cells += [str(one.max_batch_size), f"{one.delay_us / 1e3:g}"]
    cells += [str(one.instances), str(one.threads)]
    its = outcome.best(one)
    for load in its.loads:
        cells += [f"{load.p50_ms:.2f}", f"{load.tail_ms:.2f}", f"{load.rows_per_second:,.0f}"]
    if not its.loads:
        cells += ["–"] * (3 * len(result.settings.loads))
    bound = "failed" if its.fault else "kept" if its.keeps(goal) else "missed"
    if its.loads and not its.tells(goal):
        bound += "?"
    return [*cells, bound]
