"""Files of an evaluation: figures, pictures and the answer to every example."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from mntrain.atomic_files import write_atomically, write_text_atomically
from mntrain.evaluation.answers import ClassAnswers
from mntrain.evaluation.classification import ClassificationFigures
from mntrain.evaluation.pictures import picture
from mntrain.evaluation.regression import ValueFigures
from mntrain.evaluation.report import EvaluationReport
from mntrain.plotting.style import draw_raster, draw_svg
from mntrain.result_folder import result_folder

_DPI = 150


def write_files(report: EvaluationReport, folder: Path) -> None:
    """Write ``metrics.json``, ``predictions.csv``, tables of classes or targets, and a picture as PNG and SVG.

    Raises:
        ConfigError: another process writes there.
        TrainingError: a file cannot be written.
    """
    with result_folder(folder):
        text = json.dumps(report.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        write_text_atomically(folder / "metrics.json", text)
        for name, lines in _tables(report).items():
            write_text_atomically(folder / name, _csv(lines))
        drawn = picture(report.figures)
        svg = draw_svg(drawn.draw, name=drawn.name, size=drawn.size)
        write_text_atomically(folder / f"{drawn.name}.svg", svg)
        pixels = Image.fromarray(draw_raster(drawn.draw, size=drawn.size, dpi=_DPI))
        write_atomically(folder / f"{drawn.name}.png", lambda file: pixels.save(file, format="PNG"))


def _tables(report: EvaluationReport) -> dict[str, Iterable[Sequence[object]]]:
    figures = report.figures
    if isinstance(figures, ClassificationFigures):
        return {
            "per_class.csv": _per_class(figures),
            "confusion.csv": _confusion(figures),
            "predictions.csv": _predicted_classes(report, figures),
        }
    return {"per_target.csv": _per_target(figures), "predictions.csv": _predicted_values(report, figures)}


def _per_class(figures: ClassificationFigures) -> Iterable[Sequence[object]]:
    yield "class", "precision", "recall", "f1", "support", "predicted"
    for name, one in zip(figures.names, figures.classes, strict=True):
        yield name, one.precision, one.recall, one.f1, one.support, one.predicted


def _confusion(figures: ClassificationFigures) -> Iterable[Sequence[object]]:
    yield "true \\ predicted", *figures.names
    for name, counts in zip(figures.names, figures.confusion.tolist(), strict=True):
        yield name, *counts


def _predicted_classes(report: EvaluationReport, figures: ClassificationFigures) -> Iterable[Sequence[object]]:
    answers = report.answers
    assert isinstance(answers, ClassAnswers)
    adapts = answers.unadapted_labels is not None
    others = [one for one in report.baselines if isinstance(one.figures, ClassificationFigures)]
    yield (
        "example",
        "label",
        "prediction",
        "probability",
        *(["unadapted_prediction"] if adapts else []),
        *(one.baseline.name for one in others),
    )
    for number, place in enumerate(report.data.places):
        label, predicted = report.data.examples.targets[number], answers.labels[number]
        before = [figures.names[answers.unadapted_labels[number]]] if answers.unadapted_labels is not None else []
        rest = [figures.names[one.baseline.found.answers[number]] for one in others]
        probability = f"{answers.probabilities[number, predicted]:.6f}"
        yield place, figures.names[label], figures.names[predicted], probability, *before, *rest


def _per_target(figures: ValueFigures) -> Iterable[Sequence[object]]:
    yield "target", "mse", "unadapted_mse", "rmse", "mae", "r2"
    for name, one in zip(figures.names, figures.targets, strict=True):
        yield name, one.mse, one.unadapted_mse, one.rmse, one.mae, one.r2


def _predicted_values(report: EvaluationReport, figures: ValueFigures) -> Iterable[Sequence[object]]:
    others = [(one.baseline.name, one.figures) for one in report.baselines if isinstance(one.figures, ValueFigures)]
    heading = ["example"]
    for name in figures.names:
        heading += [name, f"{name} estimate", f"{name} residual", *(f"{name} {other}" for other, _ in others)]
    yield heading
    for number, place in enumerate(report.data.places):
        cells: list[object] = [place]
        for target in range(len(figures.names)):
            true, found = figures.truth[number, target], figures.estimates[number, target]
            cells += [f"{value:.9g}" for value in (true, found, true - found)]
            cells += [f"{other.estimates[number, target]:.9g}" for _, other in others]
        yield cells


def _csv(lines: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue()
