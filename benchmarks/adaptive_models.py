"""Train models of the papers' sizes with dictionaries that act, for benchmarks/adaptive_price.py.

    python benchmarks/adaptive_models.py build/price --data.path CIFAR10 --many.path TINYIMAGENET --regression table.csv
    python benchmarks/adaptive_models.py build/price --data.path CIFAR10 --only resnet56-10-5000 convnet4-10-5000
    python benchmarks/adaptive_models.py build/price --regression table.csv --only mlp-1000

The cost of a low-rank form depends on the rank that real attention needs, so random dictionaries do not suffice. Every
model starts from data (`--meta_neighborhoods.init data`) as `mntrain fit` trains it, on a small budget: two epochs of
the network alone and one with its dictionary, on 0.56 images for each entry. So about two entries share an image
when they start; `--share 1.2` gives each its own, and takes twice as long.

Beside each classifier NAME-calibrated has the same network, with a dictionary that is filled and not trained: keys are
features of training images, values their classes with 90 % confidence, and α = 0.3.
"""

import argparse
import sys
from pathlib import Path

from adapting.acting import Budget, train_acting, train_perceptron
from adapting.calibrated import calibrate
from adapting.sizes import CALIBRATED, REGRESSION, SIZES, Size
from common.options import positive_integer, positive_number, script_parser

from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.errors import MnTrainError


def main() -> int:
    parser = script_parser(__doc__)
    names = [*(size.name for size in SIZES), REGRESSION]
    parser.add_argument("output", type=Path, help="folder for the artifacts")
    parser.add_argument("--data.path", dest="data", metavar="PATH", help="CIFAR-10 as a folder of parquet files")
    parser.add_argument("--many.path", dest="many", metavar="PATH", help="the same of a set of 100 classes")
    parser.add_argument("--regression", metavar="FILE", help="table for the perceptron")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--epochs", type=_several_epochs, default=3, help="all but the last without dictionary (3)")
    parser.add_argument("--share", type=positive_number, default=0.56, help="training images for each entry (0.56)")
    arguments = parser.parse_args()
    output: Path = arguments.output
    budget = Budget(
        folder=output, data=(arguments.data, arguments.many), share=arguments.share, epochs=arguments.epochs
    )
    missing = [size for size in SIZES if size.name in arguments.only and not _is_complete(size, output)]
    perceptron = REGRESSION in arguments.only and not (output / REGRESSION).exists()
    left_out = [size.name for size in missing if budget.data_of(size) is None and not (output / size.name).exists()]
    left_out += [REGRESSION] if perceptron and arguments.regression is None else []
    if len(left_out) == len(missing) + perceptron > 0:
        parser.error(f"there are no data for {', '.join(left_out)}; give --data.path, --many.path or --regression")
    try:
        for size in missing:
            if size.name not in left_out:
                _make(size, budget)
        if perceptron and arguments.regression is not None:
            train_perceptron(arguments.regression, output)
            print(f"wrote {output / REGRESSION}", flush=True)
    except MnTrainError as error:
        print(f"adaptive_models: {error}", file=sys.stderr)
        return error.exit_code
    for name in left_out:
        print(f"{name}: left out, there are no data for it", file=sys.stderr, flush=True)
    return 0


def _is_complete(size: Size, output: Path) -> bool:
    return (output / size.name).exists() and (output / (size.name + CALIBRATED)).exists()


def _make(size: Size, budget: Budget) -> None:
    place = budget.folder / size.name
    if not place.exists():
        train_acting(size, budget)
        print(f"wrote {place}", flush=True)
    artifact = load_artifact(place)
    assert isinstance(artifact, ImageArtifact)
    calibrate(size, artifact, budget.folder / (size.name + CALIBRATED))
    print(f"wrote {budget.folder / (size.name + CALIBRATED)}", flush=True)


def _several_epochs(text: str) -> int:
    """Read a number of epochs; the dictionary takes the last of them, and the network needs one at least.

    Raises:
        ArgumentTypeError: the text is no whole number from 2 on.
    """
    epochs = positive_integer(text)
    if epochs < 2:
        raise argparse.ArgumentTypeError(f"{text!r} leaves the network no epoch of its own; give 2 or more")
    return epochs


if __name__ == "__main__":
    sys.exit(main())
