"""Plot of the result of a measurement. matplotlib is imported only for a plot."""

from __future__ import annotations

import textwrap
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from mnserve.atomic_files import write_atomically
from mnserve.bench.results import BenchResult
from mnserve.bench.statistics import Latency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Two colours of the Okabe-Ito palette, distinct for every kind of colour vision and in grey.
_MODEL_COLOR, _AGAINST_COLOR = "#0072B2", "#E69F00"


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure to ``path``; the ending selects the format.

    Raises:
        OutputError: The file cannot be written.
    """
    stream = BytesIO()
    figure.savefig(stream, format=path.suffix.lower().removeprefix("."), dpi=150)
    write_atomically(path, stream.getvalue())


def draw(result: BenchResult) -> Figure:
    """Draws the latency for each batch size, and beside it the ratio of two models or the throughput of one."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(max(10.0, 1.8 * len(result.batches)), 5.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_latency(left, result)
    if result.against is None:
        _draw_throughput(right, result)
    else:
        _draw_ratio(right, result)
    for axes in (left, right):
        axes.set_xticks(range(len(result.batches)), [str(batch.batch) for batch in result.batches])
        axes.set_xlim(-0.6, len(result.batches) - 0.4)
        axes.set_xlabel("batch size (images a call)")
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    # Names may have hundreds of characters: they stand where a line may be as long as the picture is wide.
    figure.legend(loc="outside upper center", ncols=1, frameon=False, fontsize=9, title=f"Latency ({result.path})")
    figure.supxlabel(wrapped(result.caption, 130), fontsize=8, color="0.35")
    return figure


def _draw_latency(axes: Axes, result: BenchResult) -> None:
    from matplotlib.ticker import LogLocator

    series: list[tuple[str, str, list[Latency]]] = [
        (result.model.name, _MODEL_COLOR, [batch.model for batch in result.batches])
    ]
    if result.against is not None:
        others = [batch.against for batch in result.batches if batch.against is not None]
        series.append((result.against.name, _AGAINST_COLOR, others))
    # Points, not bars: the height of a bar means nothing on a logarithmic scale.
    for index, (name, color, latencies) in enumerate(series):
        positions = [batch + (index - (len(series) - 1) / 2) * 0.36 for batch in range(len(latencies))]
        medians = [latency.p50_ms for latency in latencies]
        tails = [max(latency.p99_ms - latency.p50_ms, 0.0) for latency in latencies]
        spans = [[0.0] * len(tails), tails]
        axes.errorbar(positions, medians, yerr=spans, fmt="o", color=color, capsize=4, label=wrapped(name, 70))
        for position, median in zip(positions, medians, strict=True):
            axes.annotate(
                f"{median:.3g}",
                (position, median),
                xytext=(0, -13),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_ylabel("latency of a call (ms, log scale)")
    axes.set_title("Median, whisker to the 99th percentile", fontsize=10)


def _draw_ratio(axes: Axes, result: BenchResult) -> None:
    for position, batch in enumerate(result.batches):
        if batch.ratio is None:
            continue
        spread = batch.ratio.spread
        axes.plot([position, position], [spread.low, spread.high], color=_MODEL_COLOR, linewidth=1)
        axes.plot([position, position], [spread.q1, spread.q3], color=_MODEL_COLOR, linewidth=8, alpha=0.35)
        axes.plot(position, spread.median, "o", color=_MODEL_COLOR)
        axes.annotate(
            f"{spread.median:.2f}",
            (position, spread.median),
            xytext=(10, 8),
            textcoords="offset points",
            va="center",
        )
    axes.axhline(1.0, color=_AGAINST_COLOR, linewidth=1.5)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("latency, first model / second")
    axes.set_title("Ratio by round: median, quartiles, extremes", fontsize=10)


def _draw_throughput(axes: Axes, result: BenchResult) -> None:
    values = [batch.model.images_per_second for batch in result.batches]
    bars = axes.bar(range(len(values)), values, 0.6, color=_MODEL_COLOR)
    axes.bar_label(bars, labels=[f"{value:,.0f}" for value in values], fontsize=8)
    axes.set_ylabel("throughput (images/s)")
    axes.set_title("Throughput", fontsize=10)


def wrapped(text: str, width: int) -> str:
    """Breaks a text, words too, into lines of at most ``width`` characters, with dollar signs escaped."""
    return plain("\n".join(textwrap.wrap(text, width)))


def plain(text: str) -> str:
    """Escapes dollar signs, which would start mathematics in a plot."""
    return text.replace("$", r"\$")
