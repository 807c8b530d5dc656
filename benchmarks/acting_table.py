"""Print one table in markdown over finished comparisons: accuracy, tests, and what adaptation does, set by set.

    python benchmarks/acting_table.py runs/compare-digits/compare.json runs/compare-pacs/compare.json
    python benchmarks/acting_table.py runs/compare-digits --recompute --data.path digits=NEW --json table.json

With --recompute the record of what adaptation does is measured anew from each run's artifact and data, for runs that
were trained before `mntrain fit` kept one. Runs are looked for beside the folder of the comparison (or in --runs).
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.figures import write_json
from common.options import add_json, script_parser
from torch import nn

from mntrain.acting.measuring import adaptation_record
from mntrain.acting.record import AdaptationRecord
from mntrain.artifact import load_artifact
from mntrain.artifact_config import TableArtifactConfig
from mntrain.comparison.acting import Acting, acting_of
from mntrain.comparison.acting_table import acting_caption, acting_cells
from mntrain.comparison.paired import holm
from mntrain.comparison.table import mean_std, p_text
from mntrain.data.config import DataConfig
from mntrain.data.examples import Examples
from mntrain.data.images import ImageData
from mntrain.data.tables import TableData
from mntrain.errors import ArtifactError, MnTrainError
from mntrain.regular_files import read_text
from mntrain.result_table import ResultTable
from mntrain.training.artifact_data import load_data
from mntrain.training.evaluation import ACCURACY, METRICS, MSE, EvaluationPlan, Metric, evaluate

_SHOWN = ("corrected / broken", "consistency", "agreement", "faithfulness", "stability")
_BATCH = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Splits:
    """Data of an artifact, as its model was trained on it."""

    train: Examples
    test: Examples
    preprocessing: nn.Module


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("comparisons", type=Path, nargs="+", help="compare.json of `mntrain compare`, or its folder")
    parser.add_argument("--recompute", action="store_true", help="measure what adaptation does from the artifacts")
    parser.add_argument("--runs", type=Path, help="folder of the runs (the one above the comparison's)")
    parser.add_argument(
        "--data.path", dest="data", type=_new_place, action="append", default=[], metavar="RECIPE=PATH",
        help="where the data of a comparison lies now; repeatable",
    )  # fmt: skip
    add_json(parser)
    arguments = parser.parse_args()
    places = dict(arguments.data)
    try:
        records = []
        for path in arguments.comparisons:
            file = path / "compare.json" if path.is_dir() else path
            comparison = _read(file)
            runs = arguments.runs or file.parent.parent
            look = Measuring(runs, places.get(comparison["recipe"])) if arguments.recompute else None
            records += rows_of(comparison, look)
    except MnTrainError as error:
        print(error, file=sys.stderr)
        return 1
    print(table_of(records).markdown(), end="")
    write_json(arguments.json, records)
    return 0


def rows_of(
    comparison: Mapping[str, Any], look: Callable[[str], AdaptationRecord | None] | None
) -> list[dict[str, Any]]:
    """Make a record of each variant of a comparison.

    Args:
        comparison: content of its ``compare.json``.
        look: name of a run → its record, measured anew; None takes what the comparison tells.
    """
    variants = comparison["variants"]
    differences = [variant["difference"] or {} for variant in variants]
    corrected = holm([difference.get("p_value") for difference in differences])
    rows = []
    for variant, difference, p_holm in zip(variants, differences, corrected, strict=True):
        acting = _acting(variant, look)
        rows.append(
            {
                "set": comparison["recipe"],
                "metric": comparison["metric"],
                "seeds": len(comparison["seeds"]),
                "baseline": comparison["baseline"],
                **{name: variant[name] for name in ("variant", "mean", "std", "unadapted_mean")},
                "difference": difference.get("mean"),
                "difference_std": difference.get("std"),
                "p_value": difference.get("p_value"),
                "p_holm": p_holm,
                "adaptation": None if acting is None else acting.to_json(),
                "seconds": statistics.mean(run["seconds"] for run in variant["runs"]) if variant["runs"] else None,
            }
        )
    return rows


def _acting(variant: Mapping[str, Any], look: Callable[[str], AdaptationRecord | None] | None) -> Acting | None:
    runs = variant["runs"]
    gains = [run["score"] - run["unadapted"] for run in runs if run["unadapted"] is not None]
    if not gains:
        return None
    if look is None and variant.get("adaptation") is not None:
        return Acting.from_json(variant["adaptation"])
    found = [AdaptationRecord.from_metrics(run) if look is None else look(run["name"]) for run in runs]
    # A comparison trains all runs of a variant on one split, and refuses others.
    return acting_of(gains, [record for record in found if record is not None], same_split=True)


class Measuring:
    """Measures what adaptation does in the finished runs of one set, whose data is loaded once.

    Args:
        runs: folder of the runs.
        place: new path of their data.
    """

    def __init__(self, runs: Path, place: str | None) -> None:
        self._runs, self._place = runs, place
        self._loaded: dict[DataConfig, ImageData | TableData] = {}

    def __call__(self, name: str) -> AdaptationRecord | None:
        """Measure the run called ``name``; None where its model looks no neighbors up."""
        print(name, file=sys.stderr, flush=True)
        artifact = load_artifact(self._runs / name / "artifact")
        config = artifact.config
        if config.experiment.data not in self._loaded:
            self._loaded[config.experiment.data] = load_data(config, self._place)
        data = self._loaded[config.experiment.data]
        train: Examples = data.train
        test: Examples = data.test
        if isinstance(config, TableArtifactConfig) and isinstance(data, TableData):
            train, test = config.standardization.targets(data.train), config.standardization.targets(data.test)
        splits = Splits(train=train, test=test, preprocessing=artifact.preprocessing)
        plan = EvaluationPlan(metric=MSE if config.labels is None else ACCURACY, batch_size=_BATCH)
        evaluation = evaluate(artifact.model, artifact.preprocessing, test, plan)
        return adaptation_record(artifact.model, splits, evaluation)


def table_of(rows: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Make the table; a set and its baseline are named once."""
    metrics = [METRICS[row["metric"]] for row in rows]
    baselines = sorted({row["baseline"] for row in rows})
    seeds = sorted({row["seeds"] for row in rows})
    headings = ["set", "variant", "score", "minus baseline", "p", "p (Holm)", "unadapted", *_SHOWN, "seconds a run"]
    caption = (
        f"Test scores, mean ± sample deviation over {' or '.join(map(str, seeds))} seeds; the baseline is "
        f"{' or '.join(baselines)}; p is that of a two-sided paired t-test over the seeds, uncorrected and corrected "
        f"by Holm's method for the variants of a set. {acting_caption(_SHOWN, metrics[0])}"
    )
    return ResultTable(
        headings=headings,
        rows=[_cells(row, metric) for row, metric in zip(rows, metrics, strict=True)],
        caption=caption,
    )


def _cells(row: Mapping[str, Any], metric: Metric) -> list[str]:
    acting = {} if row["adaptation"] is None else acting_cells(Acting.from_json(row["adaptation"]), metric)
    return [
        row["set"],
        row["variant"],
        mean_std(metric, row["mean"], row["std"]),
        mean_std(metric, row["difference"], row["difference_std"], sign=True),
        p_text(row["p_value"]),
        p_text(row["p_holm"]),
        metric.text(row["unadapted_mean"]),
        *(acting.get(heading, "") for heading in _SHOWN),
        "" if row["seconds"] is None else f"{row['seconds']:.0f}",
    ]


def _read(file: Path) -> dict[str, Any]:
    try:
        comparison = json.loads(read_text(file))
        if comparison["metric"] not in METRICS:
            raise ValueError(f"its metric is {comparison['metric']!r}")
        return dict(comparison)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{file} cannot be read as a comparison ({error}); give a compare.json that `mntrain compare` has written."
        ) from error


def _new_place(text: str) -> tuple[str, str]:
    recipe, equals, place = text.partition("=")
    if not (recipe and equals and place):
        raise argparse.ArgumentTypeError(f"{text!r} is not RECIPE=PATH")
    return recipe, place


if __name__ == "__main__":
    raise SystemExit(main())
