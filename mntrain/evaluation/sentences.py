"""Sentences that an evaluation begins with on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mntrain.data.class_groups import CLASS_GROUPS
from mntrain.data.labels import listing
from mntrain.evaluation.classification import ClassificationFigures
from mntrain.evaluation.labelled import LabelledData
from mntrain.evaluation.report import EvaluationReport
from mntrain.training.evaluation import metric_of


def sentences(report: EvaluationReport) -> Iterator[str]:
    """Say score and loss, and what of the new data was used."""
    data, figures = report.data, report.run_figures
    metric = metric_of(figures, report.artifact)
    part = data.split if data.path is None else f"{data.path}" if data.split == "all" else f"{data.path} ({data.split})"
    yield f"{part} {metric.describe(figures)}, loss {figures['loss']:.4f}, {figures['examples']} examples"
    if "corrected" in figures:
        yield f"adaptation corrects {figures['corrected']:,} answers and breaks {figures['broken']:,}"
    if isinstance(report.figures, ClassificationFigures) and report.figures.top:
        shares = (f"{share:.2%} among the {count} likeliest" for count, share in report.figures.top.items())
        yield f"right class {', '.join(shares)}"
    yield from _about_groups(figures)
    yield from data.notes
    yield from _about_classes(report)
    yield from _about_shared(data)


def _about_groups(figures: Mapping[str, Any]) -> Iterator[str]:
    """Say the accuracy of classes of many, medium and few training examples, where training was imbalanced."""
    groups = [group for group in CLASS_GROUPS if f"accuracy_{group}" in figures]
    if not groups:
        return
    shares = (f"{group} {figures[f'accuracy_{group}']:.2%}" for group in groups)
    yield f"accuracy by training examples of a class: {', '.join(shares)}"
    if "top_5" in figures:
        top = (f"{group} {figures[f'top_5_{group}']:.2%}" for group in groups)
        yield f"right class among the 5 likeliest: {figures['top_5']:.2%}; {', '.join(top)}"


def _about_classes(report: EvaluationReport) -> Iterator[str]:
    data = report.data
    if data.path is None or not isinstance(report.figures, ClassificationFigures):
        return
    if data.left_out:
        counted = listing([f"{name!r} ({count})" for name, count in data.left_out.items()])
        total = sum(data.left_out.values())
        yield f"left out, since the model does not know their class: {total} {data.noun}: {counted}"
    absent = [
        repr(name) for name, one in zip(report.figures.names, report.figures.classes, strict=True) if not one.support
    ]
    if absent:
        yield f"no {data.noun} of {len(absent)} of the model's {len(report.figures.names)} classes: {listing(absent)}"


def _about_shared(data: LabelledData) -> Iterator[str]:
    shared = data.shared
    if shared is None:
        return
    if shared.support:
        known = f"the {shared.samples_of} support {data.noun} in the artifact, which it was adapted to"
        if shared.samples:
            yield f"warning: {shared.samples:,} of {len(data.examples):,} {data.noun} are equal to some of {known}"
        else:
            yield f"none is equal to {known}"
        return
    if shared.training:
        yield (
            f"warning: {shared.training:,} of {len(data.examples):,} {data.noun} are equal to training {data.noun} of "
            "the run; the figures count what was learned by heart"
        )
    elif shared.training == 0:
        yield f"none of the {data.noun} is equal to one that the model was trained with"
    if shared.samples:
        yield (
            f"warning: {shared.samples:,} of {len(data.examples):,} {data.noun} are equal to some of the "
            f"{shared.samples_of} held-out {data.noun} in the artifact; this may be data of the run, part of which it "
            "was trained with"
        )
    elif shared.training is None:
        yield (
            f"none is equal to the {shared.samples_of} held-out {data.noun} in the artifact (training {data.noun} are "
            "not kept there, so equal ones cannot be found)"
        )
