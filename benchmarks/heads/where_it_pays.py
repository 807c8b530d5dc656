"""Properties of features for which Meta-Neighborhoods gains over the best linear classifier, on made-up features.

    PYTHONPATH=benchmarks python -m heads.where_it_pays --figure where-it-pays.svg

One property is varied at a time around 5 classes of 4 modes, 200 examples a class and 16 features. Rows: converged
logistic regression (13 penalties), Meta-Neighborhoods started from it (300 entries, 4 trials), and a perceptron of as
many numbers (4 trials); validation chooses. Results lie one a file under --output, and a run goes on where it was.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from common.options import script_parser
from rich.console import Console

from heads.fixed_methods import measure_fixed
from heads.made_up import Properties, made_up
from heads.pools import SplitSizes, write_pools
from heads.scored import Scored, stored
from heads.trained_rows import measure_trained
from mntrain.plotting.style import COLORS, draw_svg
from mntrain.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIED: Mapping[str, Sequence[Any]] = {
    "modes": (1, 2, 4, 8),
    "examples": (20, 60, 200, 600),
    "dimension": (8, 16, 32, 64),
    "distance": (2.0, 3.0, 4.0, 6.0),
    "noise": (0.0, 0.1, 0.3),
    "imbalance": (1.0, 10.0, 50.0),
}
ROWS = {"logistic": "logistic regression", "mn-short": "Meta-Neighborhoods", "perceptron-short": "perceptron"}
_HELD_OUT = SplitSizes(train=0, validation=500, test=2000)

Found = dict[str, dict[Any, dict[str, list[Scored]]]]
"""Property → value → row → results of the seeds."""


def _parser() -> argparse.ArgumentParser:
    parser = script_parser(__doc__)
    parser.add_argument("--output", type=Path, default=Path("where-it-pays"), help="folder of stores and results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--properties", nargs="+", choices=tuple(VARIED), default=tuple(VARIED))
    parser.add_argument("--figure", type=Path, help="svg file to write")
    parser.add_argument("--only-table", action="store_true", help="measure nothing; show the results that are there")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, print the table, and draw the figure."""
    options = _parser().parse_args(words)
    torch.set_num_threads(1)
    found: Found = {name: {value: {} for value in VARIED[name]} for name in options.properties}
    for seed in range(options.seeds):
        for name in options.properties:
            for value in VARIED[name]:
                for row in ROWS:
                    scored = _result(options, replace(Properties(), **{name: value}), row, seed)
                    if scored is not None:
                        found[name][value].setdefault(row, []).append(scored)
    table = _table(found)
    table.show(Console(), title="test accuracy")
    print(table.markdown())
    if options.figure is not None:
        drawn = draw_svg(lambda figure: _draw(figure, found), name="where-it-pays", size=(8.6, 5.2))
        options.figure.write_text(drawn, encoding="utf-8")


def _result(options: argparse.Namespace, properties: Properties, row: str, seed: int) -> Scored | None:
    key = "-".join(f"{value:g}" for value in vars(properties).values())
    file = options.output / "results" / f"{key}-seed{seed}-{row}.json"
    if options.only_table and not file.exists():
        return None

    def measure() -> Scored:
        path = options.output / "stores" / f"{key}-seed{seed}"
        counts = (properties.examples * properties.classes, _HELD_OUT.validation, _HELD_OUT.test)
        store = write_pools(made_up(properties, seed, counts), path)
        if row == "logistic":
            return measure_fixed(row, store)
        return measure_trained(row, path, seed, options.output / "scratch")

    new = not file.exists()
    scored = stored(file, measure)
    if new:
        print(f"{properties} seed {seed} {row}: {scored.test:.4f} {scored.settings}", flush=True)
    return scored


def _table(found: Found) -> ResultTable:
    rows = []
    for name, values in found.items():
        for value, results in values.items():
            linear = [100 * one.test for one in results.get("logistic", ())]
            cells = [f"{name} {value:g}"]
            for row in ROWS:
                scores = [100 * one.test for one in results.get(row, ())]
                cells.append(f"{statistics.mean(scores):.1f}" if scores else "–")
            ours = [100 * one.test for one in results.get("mn-short", ())]
            gains = [one - other for one, other in zip(ours, linear, strict=False)]
            spread = f" ± {statistics.stdev(gains):.1f}" if len(gains) > 1 else ""
            cells.append(f"{statistics.mean(gains):+.1f}{spread}" if gains else "–")
            rows.append(cells)
    return ResultTable(
        headings=["", *ROWS.values(), "gain"],
        rows=rows,
        caption="Test accuracy in percent, mean over seeds; gain of Meta-Neighborhoods over logistic regression.",
    )


def _draw(figure: Figure, found: Found) -> None:
    grid = figure.subplots(2, -(-len(found) // 2), sharey=True, squeeze=False).ravel()
    for axes, (name, values) in zip(grid, found.items(), strict=False):
        for color, (row, label) in zip(COLORS, ROWS.items(), strict=False):
            points = [
                (at, statistics.mean(100 * one.test for one in results[row]))
                for at, results in enumerate(values.values())
                if results.get(row)
            ]
            axes.plot([at for at, _ in points], [mean for _, mean in points], "o-", color=color, label=label)
        axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        axes.set_xlabel({"examples": "examples a class", "modes": "modes a class"}.get(name, name))
    for axes in grid[len(found) :]:
        axes.set_axis_off()
    for axes in grid[:: max(1, len(grid) // 2)]:
        axes.set_ylabel("test accuracy, %")
    grid[0].legend(loc="lower left", fontsize=8)


if __name__ == "__main__":
    main()
