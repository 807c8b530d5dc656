"""Compare every form of every family in every precision with the trained model, over a whole test set.

    python benchmarks/parity_table.py build/parity
    python benchmarks/parity_table.py build/parity --table airfoil.csv --artifact runs/a/artifact runs/b/artifact
    python benchmarks/parity_table.py build/parity --only maxl "mn, dot head" --epochs 1 --json parity.json

Models are trained for a few epochs on scikit-learn's digits and on spirals, regressors on `--table` (any table whose
last column is a number). The next time they are taken from the folder; `--artifact` adds further models. Each is
exported with `--parity test` in each form and dtype, with no limit on the accuracy lost.

A cell is the largest error of a probability against the trained model (regressors: of a value, in standard deviations
of the target). For float32 it is that of the static form and of every file at every batch size. Files of an
approximation are compared with the static form, and the two errors are added. For other dtypes it is that of the file,
with the points of accuracy gained or lost. The file of `--json` is written after every export, and exports that stand
in it are not made again.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mnexport.errors import FormError, MnExportError
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.precision.accuracy import DTYPES, DType, Precision
from mnexport.report import ExportReport
from mnexport.repository.target import Target
from mntrain.artifact import TableArtifact, load_artifact
from mntrain.atomic_files import write_text_atomically
from mntrain.config import load_experiment
from mntrain.result_table import ResultTable
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

# Trained models: the recipe, and overrides of it.
_MN = "--meta_neighborhoods."
TRAINED = {
    "vanilla": "digits --family vanilla",
    "maxl": "digits --family maxl",
    "mn": "digits",
    "mn, ifilm": "digits --backbone.ifilm true",
    "mn, resnet29 with ifilm": "digits --backbone.name resnet29 --backbone.width 0.25 --backbone.ifilm true",
    "mn, densenet40bc with ifilm": "digits --backbone.name densenet40bc --backbone.width 0.5 --backbone.ifilm true",
    "mn, dot head": f"digits {_MN}head dot",
    "mn, euclidean": f"digits {_MN}similarity euclidean",
    "mn, 3 steps": f"digits {_MN}steps 3",
    "mn, per feature": f"digits {_MN}step_size_form per_feature",
    "mn, per parameter": f"digits {_MN}step_size_form per_parameter",
    "mn, spiral": "spiral",
    "vanilla regression": "uci --family vanilla",
    "mn regression": "uci",
}
FORMS = ("vanilla", "explicit", "factored", "low_rank")
# Any loss of a backbone in 16 or 8 bits is reported, and none fails.
_ANY_LOSS = 1.0
_KEY = ("model", "form", "dtype")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Cell of the table: one export.

    Args:
        text: text of the cell.
        record: plain values for ``--json``.
        missing: reason why there is no such export.
        failure: reason why the export may not be published.
    """

    text: str
    record: dict[str, Any] = field(default_factory=dict)
    missing: str = ""
    failure: str = ""


Cells = dict[tuple[str, str, DType], Cell]
"""Cells by model, form and dtype."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="folder for runs and exports")
    parser.add_argument("--only", nargs="*", choices=list(TRAINED), default=list(TRAINED), metavar="NAME")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, metavar="DTYPE", help=f"{DTYPES}")
    parser.add_argument("--epochs", type=int, default=3, help="of the models trained here (3)")
    parser.add_argument("--table", metavar="FILE", help="table to train regressors on; none are without")
    parser.add_argument("--artifact", type=Path, nargs="+", default=[], help="models of your own, with their test set")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of low_rank (1e-3)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    cells: Cells = {}
    earlier = _read(arguments.json)
    for name, artifact in _artifacts(arguments):
        for key, options, unit in _exports(name, artifact, arguments):
            if key not in earlier:
                print(", ".join(key), file=sys.stderr, flush=True)
            cells[key] = earlier[key] if key in earlier else _cell(options, unit)
            _write(arguments.json, earlier | cells)
    keys = dict.fromkeys((name, form) for name, form, _ in cells)
    table = ResultTable(
        headings=("model", "form", *arguments.dtypes),
        rows=[[*key, *(cells[*key, dtype].text for dtype in arguments.dtypes)] for key in keys],
        caption="Largest error of a probability (regression: of a value, in deviations of the target), and for other "
        f"dtypes points of accuracy gained or lost. Whole test set, low_rank within {arguments.tolerance:g}.",
    )
    notes = [
        *_notes("–", {key: cell.missing for key, cell in cells.items()}),
        *_notes("FAILED", {key: cell.failure for key, cell in cells.items()}),
    ]
    table.show(Console(), title="parity with the trained model", notes=notes)
    return 1 if any(cell.failure for cell in cells.values()) else 0


def _write(file: Path | None, cells: Cells) -> None:
    if file is not None:
        records = [dict(zip(_KEY, key, strict=True)) | asdict(cell) for key, cell in cells.items()]
        write_text_atomically(file, json.dumps(records, indent=2) + "\n")


def _read(file: Path | None) -> Cells:
    if file is None or not file.exists():
        return {}
    cells: Cells = {}
    for item in json.loads(file.read_text(encoding="utf-8")):
        name, form, dtype = (item.pop(key) for key in _KEY)
        cells[name, form, dtype] = Cell(**item)
    return cells


def _notes(mark: str, reasons: dict[tuple[str, str, DType], str]) -> Iterator[str]:
    """Write a line for every reason, with the exports that it holds for."""
    count = len({dtype for _, _, dtype in reasons})
    for reason in dict.fromkeys(filter(None, reasons.values())):
        places: dict[str, list[str]] = {}
        for (name, form, dtype), cell_reason in reasons.items():
            if cell_reason == reason:
                places.setdefault(f"{name}, {form}", []).append(dtype)
        where = "; ".join(
            place if len(dtypes) == count else f"{place}, {' and '.join(dtypes)}" for place, dtypes in places.items()
        )
        yield f"{mark} {reason} ({where})"


def _artifacts(arguments: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    for name in arguments.only:
        recipe, *words = TRAINED[name].split()
        if recipe == "uci":
            if not arguments.table:
                print(f"{name}: left out, no --table", file=sys.stderr)
                continue
            words += ["--data.path", arguments.table]
        run = "-".join(name.replace(",", "").split())
        artifact = arguments.output / "runs" / run / "artifact"
        if not artifact.exists():
            print(f"training {name}", file=sys.stderr, flush=True)
            words += ["--name", run, "--training.epochs", str(arguments.epochs)]
            fit(
                load_experiment(recipe, words),
                FitOptions(runs=arguments.output / "runs", resume=artifact.parent.exists(), quiet=True),
            )
        yield name, artifact
    for artifact in arguments.artifact:
        yield artifact.parent.name if artifact.name == "artifact" else artifact.name, artifact


def _exports(
    name: str, path: Path, arguments: argparse.Namespace
) -> Iterator[tuple[tuple[str, str, DType], ExportOptions, float]]:
    """Plan the exports of a model, and the unit of its errors."""
    artifact = load_artifact(path)
    unit = float(np.max(artifact.config.standardization.target_std)) if isinstance(artifact, TableArtifact) else 1.0
    adapts = artifact.config.family == "meta_neighborhoods"
    for form, dtype in product(FORMS if adapts else ("vanilla",), arguments.dtypes):
        options = ExportOptions(
            artifact=path,
            target=Target(repository=arguments.output / "repository", name="parity", version=1, overwrite=True),
            form="auto" if form == "vanilla" else form,
            vanilla=form == "vanilla" and adapts,
            approximation_tolerance=arguments.tolerance,
            precision=Precision(dtype=dtype, max_accuracy_drop=_ANY_LOSS),
            parity_images="test",
        )
        yield (name, form, dtype), options, unit


def _cell(options: ExportOptions, unit: float) -> Cell:
    try:
        report = export(options)
    except FormError as error:  # the model lacks the form, or a backbone to compute in this dtype
        return Cell(text="–", missing=str(error))
    except MnExportError as error:
        return Cell(text="FAILED", failure=str(error))
    return _exact_cell(report, unit) if report.accuracy is None else _lowered_cell(report)


def _exact_cell(report: ExportReport, unit: float) -> Cell:
    errors = {"trained model": 0.0, "static form": 0.0}
    for item in report.parity.comparisons:
        error = item.max_error.get("probabilities", item.max_error.get("value", 0.0) / unit)
        errors[item.reference] = max(errors[item.reference], error)
    record = {
        "max_error": sum(errors.values()),
        "other_class": max(item.argmax_differences for item in report.parity.comparisons),
        "examples": max(item.examples for item in report.parity.comparisons),
        "rank": report.adaptation.get("rank"),
    }
    return Cell(text=f"{sum(errors.values()):.1e}", record=record)


def _lowered_cell(report: ExportReport) -> Cell:
    assert report.accuracy is not None
    accuracy = report.accuracy
    return Cell(text=f"{accuracy.max_probability_error:.1e}, {-100 * accuracy.lost:+.2f}", record=accuracy.to_dict())


if __name__ == "__main__":
    sys.exit(main())
