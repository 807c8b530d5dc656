"""Meta-Neighborhoods on fixed features against linear classifiers, kNN, an RBF-SVM and a perceptron.

    PYTHONPATH=benchmarks python -m heads.adaptive_heads --data ../shared/data --network runs/cifar10-convnet4/artifact

Sets: mnist, pacs and tiny-imagenet (20 classes) as features of a network that was trained on other data; usps (raw
pixels), skillcraft (leagues) and wine (levels of quality) as rows. Every seed draws splits and starts anew: 1,500
examples to train, 500 to choose settings by, up to 2,000 to test (wine 900, 300 and the rest). Results lie one a file
under --output: a run that was stopped goes on where it was, and --only-table reads what is there. One core, hours.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from common.options import script_parser
from rich.console import Console

from heads.fixed_methods import METHODS, measure_fixed
from heads.image_pools import image_pool
from heads.pools import Pool, SplitSizes, draw_store
from heads.scored import Scored, stored
from heads.summary import cost_table, results_table, tests_table
from heads.table_pools import table_pool
from heads.trained_rows import ROWS, measure_trained

_IMAGES = ("mnist", "pacs", "tiny-imagenet")
_TABLES = ("usps", "skillcraft", "wine")
_ROW_NAMES = (
    "linear-dot",
    "linear-cosine",
    "logistic",
    "mn-dot",
    "mn-cosine",
    "mn-logistic",
    "perceptron",
    "knn",
    "svm",
)
_DEFAULT = ("mnist", "pacs", "usps", "skillcraft")
_SIZES = {"wine": SplitSizes(train=900, validation=300), "skillcraft": SplitSizes(train=1500, validation=500)}
_LIMIT = 6000


def _parser() -> argparse.ArgumentParser:
    parser = script_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--network", type=Path, required=True, help="artifact of a classifier of 32x32 images in color")
    parser.add_argument("--output", type=Path, default=Path("adaptive-heads"), help="folder of stores and results")
    parser.add_argument("--sets", nargs="+", choices=(*_IMAGES, *_TABLES), default=_DEFAULT)
    parser.add_argument("--rows", nargs="+", choices=_ROW_NAMES, default=_ROW_NAMES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only-table", action="store_true", help="measure nothing; show the results that are there")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the tables."""
    options = _parser().parse_args(words)
    torch.set_num_threads(1)
    results: dict[str, dict[str, list[Scored]]] = {name: {} for name in options.sets}
    for seed in range(options.seeds):
        for name in options.sets:
            for row in options.rows:
                file = options.output / "results" / f"{name}-seed{seed}-{row}.json"
                if options.only_table and not file.exists():
                    continue
                scored = stored(file, partial(_measure, options, name, row, seed))
                results[name].setdefault(row, []).append(scored)
                if not options.only_table:
                    print(f"{name} seed {seed} {row}: {scored.test:.4f} {scored.settings}", flush=True)
    console = Console()
    for title, table in (
        ("accuracy", results_table(results, options.rows)),
        ("against the best linear classifier", tests_table(results, options.rows)),
        ("cost", cost_table(results, options.rows)),
    ):
        table.show(console, title=title)
        print(table.markdown())


def _measure(options: argparse.Namespace, name: str, row: str, seed: int) -> Scored:
    path = options.output / "stores" / f"{name}-seed{seed}"
    store = draw_store(_pool(options, name), _SIZES.get(name, SplitSizes()), seed, path)
    if row in METHODS:
        return measure_fixed(row, store)
    assert row in ROWS
    return measure_trained(row, path, seed, options.output / "scratch")


def _pool(options: argparse.Namespace, name: str) -> Pool:
    file = options.output / "pools" / f"{name}.npz"
    if not file.exists():
        pool = (
            image_pool(name, options.data, options.network, _LIMIT)
            if name in _IMAGES
            else table_pool(name, options.data, _LIMIT)
        )
        pool.save(file)
    return Pool.load(file)


if __name__ == "__main__":
    main()
