"""What ``mnserve bench`` does: measure, write the JSON and the plot, print the table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mnserve.bench.measure import measure
from mnserve.bench.plot import save_plot
from mnserve.bench.results import BenchResult
from mnserve.bench.settings import BenchSettings
from mnserve.bench.table import print_table
from mnserve.files import check_writable, write_atomically

__all__ = ["bench"]

_STANDARD_OUTPUT = "-"
_LOG_COLUMNS = 140


def bench(settings: BenchSettings) -> int:
    """Measures, writes the JSON and the plot that were asked for, and prints the table.

    With ``--json -`` standard output is JSON alone, and the table goes to standard error.

    Returns:
        0; whatever goes wrong is an MnServeError.

    Raises:
        MnServeError: the measurement cannot be made, or a file cannot be written. Both are found out before
            anything is timed where that is possible.
    """
    json_file = None if settings.json in (None, _STANDARD_OUTPUT) else Path(str(settings.json))
    plot_file = None if settings.plot is None else Path(settings.plot)
    for path in (json_file, plot_file):
        if path is not None:
            check_writable(path)
    result = _measure_with_progress(settings)
    text = json.dumps(result.to_json(), indent=2, allow_nan=False) + "\n"
    if json_file is not None:  # files first: standard output may be closed or full by now
        write_atomically(json_file, text.encode())
    if plot_file is not None:
        save_plot(result, plot_file)
    print_table(result, _console(stderr=settings.json == _STANDARD_OUTPUT))
    if settings.json == _STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    return 0


def _console(*, stderr: bool) -> Console:
    """As wide as the terminal; elsewhere as wide as the table needs and not the 80 columns of a guess."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=_LOG_COLUMNS)


def _measure_with_progress(settings: BenchSettings) -> BenchResult:
    """A bar on a terminal, nothing elsewhere; redrawn between rounds only, never while a call is timed."""
    console = Console(stderr=True)
    total = settings.rounds * len(settings.batches)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
    with progress:
        task = progress.add_task("loading and warming up", total=total)
        progress.refresh()

        def on_round(batch: int, done: int) -> None:
            progress.update(task, advance=1, description=f"batch {batch}, round {done} of {settings.rounds}")
            progress.refresh()

        return measure(settings, on_round=on_round)
