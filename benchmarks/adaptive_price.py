"""Price of adaptation on ONNX Runtime's CPU provider: latency of models over the same without a dictionary.

    python benchmarks/adaptive_models.py build/price --data.path CIFAR10 --many.path TINYIMAGENET --regression table.csv
    python benchmarks/adaptive_price.py build/price --calibrated
    python benchmarks/adaptive_price.py build/price --only convnet4-10-5000 --seconds 1 --json price.json

Every artifact is exported as a user would (`--form auto --tolerance 1e-3`) and once with `--vanilla`, into a repository
beside the artifacts; both are timed in this process on one thread, a few calls of each in turn, at batch 1, 8 and 32.
The ratio is the median over rounds. `--calibrated` does the same with the filled dictionaries of the same networks.

The rank is that of the file that mnserve runs on a CPU, beside the number of entries. The error is the largest
difference of a probability (of a value: in deviations of the target) from the trained model in the parity check. The
change of weights is the mean ‖w' − w‖ / ‖w‖ on 256 images.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adapting.figures import acting_figures
from adapting.sizes import CALIBRATED, REGRESSION
from common.figures import with_quartiles, write_json
from common.options import add_json, add_timing, positive_number, script_parser
from common.price import export_record, price_of
from rich.console import Console

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.bench.machine import describe_machine
from mntrain.result_table import ResultTable

# Highest accepted ratio at batch 1, 8 and 32.
WANTED = {
    "resnet56-10-5000": (1.15, 1.06, 1.06),
    "resnet29-10-5000": (1.30, 1.10, 1.10),
    "densenet40bc-10-5000": (1.15, 1.06, 1.06),
    "convnet4-10-5000": (1.40, 1.15, 1.15),
    "resnet56-100-10000": (1.50, 1.15, 1.15),
    "resnet56-ifilm-10-5000": (1.45, 1.30, 1.30),
    REGRESSION: (6.0, 6.0, 6.0),
}
BATCHES = (1, 8, 32)
# A model with iFiLM is compared with the same network without iFiLM.
PLAIN = {"resnet56-ifilm-10-5000": "resnet56-10-5000"}


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("artifacts", type=Path, help="folder that adaptive_models.py wrote")
    parser.add_argument("--only", nargs="+", choices=list(WANTED), default=list(WANTED), metavar="NAME")
    parser.add_argument("--calibrated", action="store_true", help="measure the filled dictionaries too")
    parser.add_argument("--tolerance", type=positive_number, default=1e-3, help="of the export (1e-3)")
    add_timing(parser, seconds=10, rounds=40)
    parser.add_argument("--exported", action="store_true", help="time what an earlier call exported, as it is")
    add_json(parser)
    arguments = parser.parse_args()
    prices = {}
    for name in _names(arguments):
        needed = list(dict.fromkeys((name, _plain(name))))
        missing = [item for item in needed if not (arguments.artifacts / item).is_dir()]
        if missing:
            print(f"{name}: left out, {', '.join(missing)} not in {arguments.artifacts}", file=sys.stderr, flush=True)
            continue
        prices[name] = _price(name, arguments)
        print(f"{name}: {_ratios(prices[name])}", file=sys.stderr, flush=True)
    if not prices:
        parser.error(f"{arguments.artifacts} has none of the models; make them with benchmarks/adaptive_models.py")
    machine = describe_machine()
    table = ResultTable(
        headings=(
            *("model", "form", "rank of S", "weights", "error"),
            *(f"batch {batch}" for batch in BATCHES),
            *("wanted", "vanilla p50 ms", "file MB"),
        ),
        rows=[_row(name, price) for name, price in prices.items()],
        caption=f"{machine.caption}, one thread. weights: mean relative change; error: largest, of a probability or in "
        "deviations of the target.",
    )
    notes = [*_exact(prices), *_missed(prices)]
    table.show(Console(), title="latency over the vanilla model's (quartiles)", notes=notes)
    write_json(arguments.json, {"machine": machine.to_json(), "models": prices})
    return 0


def _names(arguments: argparse.Namespace) -> Iterator[str]:
    for name in arguments.only:
        yield name
        if arguments.calibrated and name != REGRESSION:
            yield name + CALIBRATED


def _plain(name: str) -> str:
    """Name of the artifact whose network without adaptation a model is compared with."""
    own = name.removesuffix(CALIBRATED)
    return PLAIN.get(own, own)


def _export(name: str, arguments: argparse.Namespace, *, vanilla: bool) -> str:
    """Export a model unless it was exported before; returns its name."""
    model = f"{name}-vanilla" if vanilla else name
    target = Target(repository=arguments.artifacts / "repository", name=model, version=1, overwrite=True)
    if not (arguments.exported and target.folder.exists()):
        export(
            ExportOptions(
                artifact=arguments.artifacts / name,
                target=target,
                approximation_tolerance=arguments.tolerance,
                vanilla=vanilla,
            )
        )
    return model


def _price(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    repository = arguments.artifacts / "repository"
    _export(name, arguments, vanilla=False)
    plain = _export(_plain(name), arguments, vanilla=True)
    bench = price_of(repository, name, plain, BATCHES, seconds=arguments.seconds, rounds=arguments.rounds)
    files = {item.name: item.stat().st_size for item in (repository / name / "1").glob("*.onnx")}
    record = export_record(repository, name)
    kept = {"form": record["form"], "adaptation": record["adaptation"], "files": files, "bench": bench}
    return kept | {"acting": acting_figures(arguments.artifacts / name, record)}


def _exact(prices: dict[str, Any]) -> Iterator[str]:
    """Say why a model has an exact form."""
    for name, price in prices.items():
        if price["acting"]["rank"] is None:
            yield f"{name}, {price['form']}: {price['acting']['reason']}"


def _missed(prices: dict[str, Any]) -> Iterator[str]:
    for name, price in prices.items():
        for batch, item, limit in zip(BATCHES, price["bench"]["results"], _wanted(name), strict=True):
            ratio = item["ratio"]["spread"]["median"]
            if ratio > limit:
                yield f"missed: {name} at batch {batch}, {ratio:.2f} instead of {limit:.2f}"


def _wanted(name: str) -> tuple[float, float, float]:
    return WANTED[name.removesuffix(CALIBRATED)]


def _ratios(price: dict[str, Any]) -> str:
    return " / ".join(f"{item['ratio']['spread']['median']:.2f}" for item in price["bench"]["results"])


def _row(name: str, price: dict[str, Any]) -> list[str]:
    batches = price["bench"]["results"]
    ratios = [item["ratio"]["spread"] for item in batches]
    acting = price["acting"]
    change = acting["weight_change"]
    return [
        name,
        price["form"],
        f"{acting['rank'] or '–'} of {acting['entries']:,}",
        "–" if change is None else f"{change:.1%}",
        f"{acting['error']:.1e}",
        *(with_quartiles(item["median"], item["q1"], item["q3"]) for item in ratios),
        " / ".join(f"{item:.2f}" for item in _wanted(name)),
        " / ".join(f"{item['against']['p50_ms']:.2f}" for item in batches),
        f"{max(price['files'].values()) / 1e6:.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
