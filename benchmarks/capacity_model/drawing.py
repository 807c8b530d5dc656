"""Picture of a forecast: rate and latency by number of front ends."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from capacity_model.prediction import EASE, Forecast, gpu_rate
from mntrain.plotting.style import COLORS


def draw(forecasts: Sequence[Forecast], file: Path, caption: str, *, max_batch: int) -> None:
    """Draw a forecast into a file; its ending says in which format."""
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    rates, times = figure.subplots(1, 2)
    counts = sorted({one.front_ends for one in forecasts})
    for network, color in zip(dict.fromkeys(one.network for one in forecasts), COLORS, strict=False):
        own = [one for one in forecasts if one.network == network]
        xs = [one.front_ends for one in own]
        rates.plot(xs, [one.full.rate for one in own], marker="o", color=color, label=network.label)
        rates.axhline(gpu_rate(network, max_batch), color=color, linewidth=1, linestyle=":")
        times.plot(xs, [one.eased.p50 * 1e3 for one in own], marker="o", color=color, label=network.label)
        times.plot(xs, [one.eased.p99 * 1e3 for one in own], marker="^", linestyle="--", color=color)
    rates.set(yscale="log")
    rates.set(title="calls a second at most (dotted: the GPU alone)", ylabel="calls/s")
    times.set(title=f"latency at {EASE:.0%} of it: p50, dashed p99", ylabel="ms", ylim=(0, None))
    for axes in (rates, times):
        axes.set(xlabel="front ends", xscale="log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.minorticks_off()
        axes.grid(color="0.9")
        axes.legend(fontsize=8)
    figure.supxlabel(caption, fontsize=8)
    stream = BytesIO()
    figure.savefig(stream, format=file.suffix.lower().removeprefix("."), dpi=120)
    file.write_bytes(stream.getvalue())
