"""Price of adaptation as dictionary and classes grow: latency over the vanilla model's, for every form, as a plot.

    python benchmarks/adaptive_scaling.py build/price --data.path CIFAR10 --plot scaling.png
    python benchmarks/adaptive_scaling.py build/price --data.path CIFAR10 --backbone convnet4 --entries 500 5000
    python benchmarks/adaptive_scaling.py build/price --data.path CIFAR10 --seconds 1 --json scaling.json

Dictionaries are calibrated: keys are features of training images on a network trained for two epochs, values their
classes, and α = 0.3. All models are exported first, unless an earlier call left them in the folder with the same
tolerance. Then each is timed against the vanilla model with as many classes, in this process on one thread, a few calls
of each in turn, in the file that mnserve runs on a CPU. `--entries` are swept at 10 classes, `--classes` at 5,000
entries.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from adapting.calibrated import Training, calibrate, trained
from adapting.sizes import Size
from common.figures import with_quartiles, write_json
from common.options import add_json, add_timing, positive_integer, positive_number, script_parser, writable_file
from common.price import export_record, price_of, rank_of
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from mnexport.errors import MnExportError
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.bench.machine import describe_machine
from mntrain.errors import MnTrainError
from mntrain.plotting.style import COLORS
from mntrain.result_table import ResultTable

FORMS = ("explicit", "factored", "low_rank")
ENTRIES = (500, 1000, 2000, 5000, 10000, 20000)
CLASSES = (10, 30, 100, 300, 1000)
PICTURES = (".png", ".svg", ".pdf")
# Point that both sweeps share.
CROSSING = (10, 5000)


@dataclass(frozen=True, kw_only=True)
class Point:
    """Figures of one model in one form.

    Args:
        form: form of the export.
        classes: C.
        entries: S.
        missing: reason why there is no such export.
        rank: rank of low_rank, in the file that is timed.
        ratios: median and quartiles of the latency over vanilla's, by batch.
    """

    form: str
    classes: int
    entries: int
    missing: str = ""
    rank: int | None = None
    ratios: dict[int, tuple[float, float, float]]


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("output", type=Path, help="folder for runs, artifacts, and exports")
    parser.add_argument("--data.path", dest="data", metavar="PATH", required=True, help="CIFAR-10, parquet files")
    parser.add_argument("--backbone", default="resnet56", help="(resnet56)")
    parser.add_argument("--entries", type=positive_integer, nargs="*", default=list(ENTRIES), help=f"(S: {ENTRIES})")
    parser.add_argument("--classes", type=positive_integer, nargs="*", default=list(CLASSES), help=f"(C: {CLASSES})")
    parser.add_argument("--batches", type=positive_integer, nargs="+", default=[1, 8], help="(1 8)")
    parser.add_argument("--tolerance", type=positive_number, default=1e-3, help="of low_rank (1e-3)")
    add_timing(parser, seconds=4, rounds=20)
    parser.add_argument("--export-only", action="store_true", help="time nothing")
    parser.add_argument("--plot", type=_picture, help="picture (.png, .svg, .pdf)")
    add_json(parser)
    arguments = parser.parse_args()
    pairs = [(CROSSING[0], entries) for entries in arguments.entries]
    pairs += [(classes, CROSSING[1]) for classes in arguments.classes]
    if not pairs:
        parser.error("there is nothing to measure; give --entries or --classes")
    try:
        sizes = [Size(arguments.backbone, *pair) for pair in dict.fromkeys(pairs)]
    except ValueError as error:
        parser.error(str(error))
    try:
        missing = _exported(sizes, arguments)
    except MnTrainError as error:
        print(f"adaptive_scaling: {error}", file=sys.stderr)
        return error.exit_code
    if arguments.export_only:
        return 0
    points = [_timed(form, size, missing.get((form, size), ""), arguments) for size in sizes for form in FORMS]
    machine = describe_machine()
    headings = ("C", "S", "form", *(f"batch {batch}" for batch in arguments.batches))
    rows = [
        [str(point.classes), str(point.entries), _label(point), *_cells(point, arguments.batches)] for point in points
    ]
    table = ResultTable(headings=headings, rows=rows, caption=f"{machine.caption}, one thread.")
    notes = [
        f"– C {point.classes}, S {point.entries}, {point.form}: {point.missing}" for point in points if point.missing
    ]
    table.show(Console(), title=f"{arguments.backbone}: latency over vanilla's (quartiles)", notes=notes)
    if arguments.plot:
        _draw(points, arguments, machine.caption)
    record = {"machine": machine.to_json(), "backbone": arguments.backbone, "points": [vars(point) for point in points]}
    write_json(arguments.json, record)
    return 0


def _picture(text: str) -> Path:
    file = writable_file(text)
    if file.suffix.lower() not in PICTURES:
        raise argparse.ArgumentTypeError(f"{text!r} does not end in one of {', '.join(PICTURES)}")
    return file


def _repository(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.output / "scaling"
    return folder


def _exported(sizes: list[Size], arguments: argparse.Namespace) -> dict[tuple[str, Size], str]:
    """Export missing models; returns the reason for each form that a model lacks."""
    missing = {}
    training = Training(arguments.output / "runs", arguments.data)
    for size in sizes:
        artifact = arguments.output / "calibrated" / size.name
        if not artifact.exists():
            calibrate(size, trained(size, training), artifact)
        for form in FORMS:
            reason = _export(artifact, f"{size.name}-{form}", form, arguments)
            if reason:
                missing[form, size] = reason
        if reason := _export(artifact, _vanilla(size), "vanilla", arguments):
            missing |= {(form, size): reason for form in FORMS}  # nothing is compared with it
    return missing


def _vanilla(size: Size) -> str:
    return f"{size.network}-{size.classes}-vanilla"


def _export(artifact: Path, name: str, form: str, arguments: argparse.Namespace) -> str:
    """Export a model; returns the reason if it lacks the form."""
    target = Target(repository=_repository(arguments), name=name, version=1, overwrite=True)
    record = target.folder / "1" / "export.json"
    if record.exists():
        adaptation = json.loads(record.read_text(encoding="utf-8"))["adaptation"]
        if adaptation.get("tolerance", arguments.tolerance) == arguments.tolerance:
            return ""
    print(f"exporting {name}", file=sys.stderr, flush=True)
    options = ExportOptions(
        artifact=artifact,
        target=target,
        form="auto" if form == "vanilla" else form,
        vanilla=form == "vanilla",
        approximation_tolerance=arguments.tolerance,
    )
    try:
        export(options)
    except MnExportError as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return str(error)
    return ""


def _timed(form: str, size: Size, missing: str, arguments: argparse.Namespace) -> Point:
    if missing:
        return Point(form=form, classes=size.classes, entries=size.entries, missing=missing, ratios={})
    name = f"{size.name}-{form}"
    print(f"timing {name}", file=sys.stderr, flush=True)
    repository, plain = _repository(arguments), _vanilla(size)
    bench = price_of(repository, name, plain, arguments.batches, seconds=arguments.seconds, rounds=arguments.rounds)
    spreads = [item["ratio"]["spread"] for item in bench["results"]]
    return Point(
        form=form,
        classes=size.classes,
        entries=size.entries,
        rank=rank_of(export_record(repository, name)),
        ratios={
            batch: (item["median"], item["q1"], item["q3"])
            for batch, item in zip(arguments.batches, spreads, strict=True)
        },
    )


def _label(point: Point) -> str:
    return point.form + (f", rank {point.rank}" if point.rank else "")


def _cells(point: Point, batches: list[int]) -> list[str]:
    if point.missing:
        return ["–" for _ in batches]
    return [with_quartiles(*point.ratios[batch]) for batch in batches]


def _draw(points: list[Point], arguments: argparse.Namespace, caption: str) -> None:
    figure = Figure(figsize=(10.0, 3.9 * len(arguments.batches)), layout="constrained")
    for row, batch in zip(figure.subplots(len(arguments.batches), 2, squeeze=False), arguments.batches, strict=True):
        by_entries = [point for point in points if point.classes == CROSSING[0]]
        by_classes = [point for point in points if point.entries == CROSSING[1]]
        _draw_sweep(row[0], [(point.entries, point) for point in by_entries], batch)
        row[0].set(xlabel="entries S", ylabel="latency / vanilla", title=f"{CROSSING[0]} classes, batch {batch}")
        _draw_sweep(row[1], [(point.classes, point) for point in by_classes], batch)
        row[1].set(xlabel="classes C", title=f"{CROSSING[1]:,} entries, batch {batch}")
    figure.suptitle(f"{arguments.backbone}: price of adaptation on one core")
    figure.supxlabel(caption, fontsize=8)
    stream = BytesIO()
    figure.savefig(stream, format=arguments.plot.suffix.lower().removeprefix("."), dpi=120)
    arguments.plot.write_bytes(stream.getvalue())


def _draw_sweep(axes: Axes, points: list[tuple[int, Point]], batch: int) -> None:
    for form, color in zip(FORMS, COLORS, strict=False):
        curve = [(x, point.ratios[batch]) for x, point in points if point.form == form and not point.missing]
        xs, spreads = [x for x, _ in curve], [spread for _, spread in curve]
        axes.plot(xs, [median for median, _, _ in spreads], marker="o", color=color, label=form)
        axes.fill_between(xs, [low for _, low, _ in spreads], [high for _, _, high in spreads], color=color, alpha=0.2)
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.axhline(1.0, color="0.5", linewidth=1)
    ticks: list[Any] = sorted({x for x, _ in points})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="0.9")
    axes.legend()


if __name__ == "__main__":
    sys.exit(main())
