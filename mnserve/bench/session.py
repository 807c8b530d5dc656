"""Work of ``mnserve bench``: measure, write the JSON and the plot, print the table."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mnserve.bench.measure import measure
from mnserve.bench.plot import draw
from mnserve.bench.report import Report
from mnserve.bench.results import BenchResult
from mnserve.bench.settings import BenchSettings
from mnserve.bench.table import print_table
from mnserve.object_store.local_copy import local_copy


def bench(settings: BenchSettings) -> int:
    """Measures, writes the requested JSON and plot, and prints the table.

    With ``--json -`` standard output is JSON alone, and the table goes to standard error.

    Returns:
        0; every fault is an MnServeError.

    Raises:
        MnServeError: The measurement cannot be made, or a file cannot be written. Both are checked before the timing
            where possible.
    """
    names = [name for name in (settings.model, settings.against) if name is not None]
    with local_copy(settings.repository, settings.store, only=names) as root:
        report = Report.to(settings.json, settings.plot, [root / name for name in names])
        result = _measure_with_progress(replace(settings, repository=str(root)))
    report.deliver(result.to_json(), lambda: draw(result), lambda console: print_table(result, console))
    return 0


def _measure_with_progress(settings: BenchSettings) -> BenchResult:
    """Measures with a progress bar on a terminal, which is redrawn between rounds only, never during a timed call."""
    console = Console(stderr=True)
    total = settings.rounds * len(settings.batches)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
    with progress:
        task = progress.add_task("loading and warming up", total=total)
        progress.refresh()

        def on_round(batch: int, done: int) -> None:
            progress.update(task, advance=1, description=f"batch {batch}, round {done} of {settings.rounds}")
            progress.refresh()

        return measure(settings, on_round=on_round)
