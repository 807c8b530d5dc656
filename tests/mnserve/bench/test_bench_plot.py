"""The picture of a measurement: no text runs into another one, or out of the picture, however long the names are."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from mnserve.bench.machine import Machine
from mnserve.bench.plot import draw
from mnserve.bench.results import BatchSizeResult, BenchResult, ModelNote, Ratio
from mnserve.bench.settings import BenchSettings
from mnserve.bench.statistics import Latency, spread

LONG = "cifar100-resnet56-meta-neighborhoods-ifilm-2026-11"


def latency(p50: float) -> Latency:
    return Latency(calls=100, p50_ms=p50, p99_ms=2 * p50, mean_ms=p50, images_per_second=12_345.0)


def note(name: str) -> ModelNote:
    return ModelNote(name=name, version="1", file="model.onnx", inputs={}, parameters={})


def make_result(name: str, against: str | None, sizes: int, ratio: float = 1.1) -> BenchResult:
    """A measurement of ``sizes`` batch sizes, as if measured."""
    batches = []
    for size in range(sizes):
        p50 = 1.5 * 2.0**size
        other = None if against is None else latency(p50 / ratio)
        ratios = None if against is None else Ratio(rounds=(ratio,), spread=spread([0.9 * ratio, ratio, 1.2 * ratio]))
        batches.append(BatchSizeResult(batch=2**size, model=latency(p50), against=other, ratio=ratios))
    return BenchResult(
        settings=BenchSettings(repository="repository", model=name, against=against),
        machine=Machine(
            cpu="Intel(R) Xeon(R) Processor with a name", cores=96, gpus=("NVIDIA H200",) * 8, system="", versions={}
        ),
        threads=1,
        model=note(name),
        against=None if against is None else note(against),
        batches=tuple(batches),
        notes=(),
    )


def texts(figure: Figure) -> list[Text]:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible()]
    # Ticks beyond the limits of their axis are not drawn.
    ticks = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in (*axis.get_ticklabels(minor=True), *axis.get_ticklabels())
    }
    shown = {
        label
        for axes in figure.axes
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        if low <= place <= high
    }
    return [text for text in found if text.get_text().strip() and (text not in ticks or text in shown)]


@pytest.mark.parametrize(
    ("name", "against", "sizes"),
    [
        ("fashion-mn", "fashion-vanilla", 8),
        (LONG, LONG.replace("meta-neighborhoods", "vanilla"), 3),
        ("m" * 128, "models/of/others/" * 10 + "network.onnx", 1),
        ("a name of several words " * 5, "$other$", 3),
        (LONG, None, 8),
    ],
)
def test_no_text_runs_into_another_or_out_of_the_picture(name: str, against: str | None, sizes: int) -> None:
    figure = draw(make_result(name, against, sizes))
    drawn = texts(figure)
    assert len(drawn) > 10
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in drawn]
    overlapping = [(a, b) for (a, box), (b, other) in itertools.combinations(boxes, 2) if box.overlaps(other)]
    assert overlapping == []
    page = figure.bbox
    assert [
        text
        for text, box in boxes
        if not (page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1)
    ] == []


def test_the_models_of_a_comparison_are_told_apart_in_the_picture() -> None:
    """Names that are the same but for their ends are not cut there."""
    figure = draw(make_result(f"{LONG}-one", f"{LONG}-two", 2))
    shown = "".join(text.get_text() for text in texts(figure)).replace("\n", "")
    assert f"{LONG}-one" in shown
    assert f"{LONG}-two" in shown
