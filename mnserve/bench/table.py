"""Table of the result of a measurement, for a terminal or a log."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from mnserve.bench.results import BatchSizeResult, BenchResult
from mnserve.bench.statistics import Latency
from mnserve.text.terminal import plain, plain_lines


def print_table(result: BenchResult, console: Console) -> None:
    """Prints one row for each batch size and model, with the ratio beside the model; then the machine and the notes."""
    other = result.against
    names = result.model.name if other is None else f"{result.model.name} against {other.name}"
    table = Table(title=plain(f"latency of {names}"), box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold", min_width=8)
    for heading in ("p50 ms", "p99 ms", "images/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    if other is not None:
        for heading in ("ratio", "quartiles", "min–max"):
            table.add_column(heading, justify="right", no_wrap=True)
    for batch in result.batches:
        table.add_row(str(batch.batch), plain(result.model.name), *_cells(batch.model), *_ratio_cells(batch))
        if other is not None and batch.against is not None:
            table.add_row("", plain(other.name), *_cells(batch.against), style="dim", end_section=True)
    console.print(table)
    for sentence in (result.caption, *result.notes):
        console.print(plain_lines(sentence), soft_wrap=True)


def _cells(latency: Latency) -> tuple[str, str, str]:
    return f"{latency.p50_ms:.3f}", f"{latency.p99_ms:.3f}", f"{latency.images_per_second:,.0f}"


def _ratio_cells(batch: BatchSizeResult) -> tuple[str, ...]:
    if batch.ratio is None:
        return ()
    spread = batch.ratio.spread
    return (
        f"{spread.median:.2f}",
        f"{spread.q1:.2f}–{spread.q3:.2f}",
        f"{spread.low:.2f}–{spread.high:.2f}",
    )
