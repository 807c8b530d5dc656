"""Train on superclasses, and ask nearest neighbors for the classes: attention against features (appendix A.9).

    python benchmarks/subcategories.py build/parity --recipe mnist --data.path MNIST \
        --superclasses benchmarks/subcategory/digit_parity.json --data.train_limit 6000 --training.epochs 6
    python benchmarks/subcategories.py build/superclasses --recipe tiny-imagenet-100 --data.path TINY \
        --superclasses benchmarks/subcategory/tiny_imagenet_100.json --seeds 3 --json superclasses.json

The data is a folder of parquet files with class labels. A copy with a column of superclasses is written, and vanilla,
the paper's start and the start from data are trained on that column with the same seeds. Neighbors are the training
examples nearest by cosine to a test example, by features z or by attention ω; their commonest class is the answer. The
number of neighbors of a row is the best of 1, 5, 10, 20 and 50 on the validation split. Runs that are finished are
taken from the folder. Further words are overrides for `mntrain fit`.
"""

import dataclasses
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.figures import write_json
from common.options import add_json, positive_integer, script_parser
from subcategory.coarse_copy import COARSE, FINE, read_superclasses, write_coarse_copy
from subcategory.induction import FEATURES, Induction, chosen_neighbors, measure

from mnserve.bench.machine import describe_machine
from mntrain.analysis.report_input import ReportInput, ReportOptions, load_report_input
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.config import load_experiment
from mntrain.errors import MnTrainError
from mntrain.result_table import ResultTable
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

VANILLA = "vanilla"
VARIANTS = {
    VANILLA: ("--family", "vanilla"),
    "mn-paper": ("--family", "meta_neighborhoods", "--meta_neighborhoods.init", "paper"),
    "mn-data": ("--family", "meta_neighborhoods", "--meta_neighborhoods.init", "data"),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Trainings of every variant with every seed.

    Args:
        recipe: name or YAML file.
        folder: place of the copy of the data and of the runs.
        overrides: overrides for every run.
        seeds: number of seeds, from 0.
    """

    recipe: str
    folder: Path
    overrides: Sequence[str]
    seeds: int

    @property
    def data(self) -> Path:
        """Copy of the data with superclasses."""
        return self.folder / "data"

    def trained(self, variant: str, seed: int) -> Path:
        """Train a run, or take it as it is; returns its folder."""
        runs, name = self.folder / "runs", f"{variant}-seed{seed}"
        if not (runs / name / "artifact").exists():
            print(f"training {name}", file=sys.stderr, flush=True)
            words = [*self.overrides, *VARIANTS[variant], "--name", name, "--seed", str(seed)]
            words += ["--data.path", str(self.data), "--data.label_column", COARSE]
            fit(load_experiment(self.recipe, words), FitOptions(runs=runs, resume=(runs / name).exists(), quiet=True))
        return runs / name


Results = dict[str, list[list[Induction]]]
"""Accuracies by variant, seed and space."""


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("output", type=Path, help="folder for the copy of the data and the runs")
    parser.add_argument("--recipe", required=True, help="name or YAML file of a recipe for images")
    parser.add_argument("--data.path", dest="data", type=Path, required=True, metavar="PATH", help="folder of the data")
    parser.add_argument("--superclasses", type=Path, required=True, metavar="FILE", help="JSON: superclass → classes")
    parser.add_argument("--seeds", type=positive_integer, default=3, help="number of seeds (3)")
    add_json(parser)
    arguments, overrides = parser.parse_known_args()
    plan = Plan(recipe=arguments.recipe, folder=arguments.output, overrides=overrides, seeds=arguments.seeds)
    results: Results = {}
    try:
        write_coarse_copy(arguments.data, read_superclasses(arguments.superclasses), plan.data)
        for variant, spaces in _measured(plan):
            results.setdefault(variant, []).append(spaces)
            write_json(arguments.json, _record(plan, results))
    except MnTrainError as error:
        print(f"subcategories: {error}", file=sys.stderr)
        return error.exit_code
    print(_table(plan, results).markdown())
    return 0


def _measured(plan: Plan) -> Iterator[tuple[str, list[Induction]]]:
    data: ReportInput | None = None
    for seed in range(plan.seeds):
        for variant in VARIANTS:
            run = plan.trained(variant, seed)
            # The split does not depend on the seed of training, so the images are read once.
            data = data or load_report_input(ReportOptions(run=run, fine_labels=FINE))
            artifact = load_artifact(run / "artifact")
            assert isinstance(artifact, ImageArtifact)
            yield variant, list(measure(artifact, data))


def _record(plan: Plan, results: Results) -> dict[str, Any]:
    settings = {"recipe": plan.recipe, "overrides": list(plan.overrides), "seeds": plan.seeds}
    figures = {
        variant: [[dataclasses.asdict(one) for one in spaces] for spaces in seeds] for variant, seeds in results.items()
    }
    return {"settings": settings, "machine": describe_machine().to_json(), "variants": figures}


def _table(plan: Plan, results: Results) -> ResultTable:
    rows = []
    baseline: list[float] = []
    for variant, seeds in results.items():
        for runs in zip(*seeds, strict=True):
            count = chosen_neighbors(runs)
            fine = [run.fine[count] for run in runs]
            baseline = baseline or fine  # the first row is that of vanilla's features
            gains = [score - other for score, other in zip(fine, baseline, strict=True)]
            rows.append(
                (
                    f"{variant}, {runs[0].space}",
                    str(count),
                    _percent(fine),
                    "–" if fine is baseline else _percent(gains, sign="+"),
                    _percent([run.coarse[count] for run in runs]),
                    _percent([run.network for run in runs]),
                )
            )
    return ResultTable(
        headings=("model, vectors", "k", "fine kNN", f"− {VANILLA}, {FEATURES}", "coarse kNN", "coarse, network"),
        rows=rows,
        caption=f"Trained on superclasses alone. Test split; mean ± deviation of {plan.seeds} paired seeds. References "
        "are the training split, near is cosine, k is the best on the validation split.",
    )


def _percent(shares: Sequence[float], sign: str = "") -> str:
    spread = f" ± {100 * statistics.stdev(shares):.2f}" if len(shares) > 1 else ""
    return f"{100 * statistics.fmean(shares):{sign}.2f}{spread}"


if __name__ == "__main__":
    sys.exit(main())
