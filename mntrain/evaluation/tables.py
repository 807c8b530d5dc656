"""Tables of an evaluation for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mntrain.evaluation.classification import ClassificationFigures
from mntrain.evaluation.regression import ValueFigures
from mntrain.evaluation.report import EvaluationReport
from mntrain.result_table import ResultTable

_CLASSES = 30
_MATRIX = 12
_CONFUSIONS = 10

TitledTable = tuple[str, ResultTable]


def result_tables(report: EvaluationReport) -> Iterator[TitledTable]:
    """Make the tables of a report, each with its title."""
    figures = report.figures
    if isinstance(figures, ClassificationFigures):
        yield "classes", _classes(figures, report.data.noun)
        if len(figures.names) <= _MATRIX:
            yield "confusion matrix", _matrix(figures)
        elif (mistaken := _mistaken(figures, report.data.noun)) is not None:
            yield "most frequent mistakes", mistaken
    else:
        yield "targets", _targets(figures)
    if report.baselines:
        yield "beside scikit-learn", _baselines(report)


def _classes(figures: ClassificationFigures, noun: str) -> ResultTable:
    numbers = list(range(len(figures.names)))
    left_out = ""
    if len(numbers) > _CLASSES:
        f1_of = [2.0 if one.f1 is None else one.f1 for one in figures.classes]
        numbers = sorted(numbers, key=lambda number: f1_of[number])[:_CLASSES]
        left_out = f" The {_CLASSES} classes with the lowest F1 out of {len(figures.names)}; --output writes all."
    rows = [
        (
            figures.names[number],
            _share(one.precision),
            _share(one.recall),
            _share(one.f1),
            f"{one.support:,}",
            f"{one.predicted:,}",
        )
        for number, one in ((number, figures.classes[number]) for number in numbers)
    ]
    macro = figures.macro
    rows.append(
        (
            f"mean of {macro.classes} class{'es' * (macro.classes != 1)}",
            _share(macro.precision),
            _share(macro.recall),
            _share(macro.f1),
            f"{int(figures.confusion.sum()):,}",
            "",
        )
    )
    return ResultTable(
        headings=("class", "precision", "recall", "F1", noun, "predicted"),
        rows=rows,
        caption=f"The mean counts every class with {noun} alike.{left_out}",
    )


def _matrix(figures: ClassificationFigures) -> ResultTable:
    return ResultTable(
        headings=("true \\ predicted", *figures.names),
        rows=[
            (name, *("·" if not count else f"{count:,}" for count in counts))
            for name, counts in zip(figures.names, figures.confusion.tolist(), strict=True)
        ],
        caption="Rows are true classes, columns predicted ones.",
    )


def _mistaken(figures: ClassificationFigures, noun: str) -> ResultTable | None:
    wrong = figures.confusion.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_CONFUSIONS]
    cells = [(int(place) // len(wrong), int(place) % len(wrong)) for place in order]
    rows = [
        (figures.names[true], figures.names[found], f"{wrong[true, found]:,}", _share(wrong[true, found] / support))
        for true, found in cells
        if wrong[true, found]
        for support in [figures.classes[true].support]
    ]
    if not rows:
        return None
    return ResultTable(
        headings=("true class", "taken for", noun, "share of the class"),
        rows=rows,
        caption="--output writes the whole confusion matrix.",
    )


def _targets(figures: ValueFigures) -> ResultTable:
    adapts = any(one.unadapted_mse is not None for one in figures.targets)
    return ResultTable(
        headings=("target", "mse", *(["before adaptation"] if adapts else []), "rmse", "mae", "R²"),
        rows=[
            (
                name,
                f"{one.mse:.4f}",
                *([] if one.unadapted_mse is None else [f"{one.unadapted_mse:.4f}"]),
                f"{one.rmse:.4g}",
                f"{one.mae:.4g}",
                "" if one.r2 is None else f"{one.r2:.4f}",
            )
            for name, one in zip(figures.names, figures.targets, strict=True)
        ],
        caption="mse is of standardised targets; rmse and mae are in the target's own units.",
    )


def _baselines(report: EvaluationReport) -> ResultTable:
    figures, before = report.figures, report.before
    if isinstance(figures, ClassificationFigures):
        headings: tuple[str, ...] = ("method", "accuracy", "macro F1", "looks at", "chosen on validation")
    else:
        headings = ("method", "mse", "looks at", "chosen on validation")
    rows = [("model", *_scores(figures), "", "")]
    if before is not None:
        rows.append(("model before adaptation", *_scores(before), "", ""))
    for one in report.baselines:
        chosen = ", ".join(f"{value} {name}" for name, value in one.baseline.found.chosen.items())
        rows.append((one.baseline.title, *_scores(one.figures), one.baseline.inputs, chosen))
    return ResultTable(
        headings=headings,
        rows=rows,
        caption="All on the same examples; scikit-learn learned from the training split of the run.",
    )


def _scores(figures: ClassificationFigures | ValueFigures) -> tuple[str, ...]:
    if isinstance(figures, ClassificationFigures):
        return _share(figures.accuracy), _share(figures.macro.f1)
    return (f"{figures.mse:.4f}",)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"
