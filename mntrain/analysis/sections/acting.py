"""Section on what adaptation does: how far weights and answers move, and whether neighbors mean something."""

from __future__ import annotations

from dataclasses import replace

from mntrain.acting.record import AdaptationRecord, effect_on, entry_agreement, model_queries
from mntrain.analysis.observation import Observed, sample
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section
from mntrain.models.neighbors import HasNeighbors
from mntrain.training.evaluation import metric_of


def acting_section(
    report_input: ReportInput, test: Observed | None = None, train: Observed | None = None
) -> Section | None:
    """Tell what adaptation does to weights and answers; None where the family does not adapt.

    Args:
        report_input: the run.
        test, train: answers of a classifier; None for a regressor.
    """
    record = _record(report_input, test, train)
    if record is None:
        return None
    metrics = report_input.artifact.config.metrics["test"]
    metric = metric_of(metrics, report_input.artifact.config.experiment.name)
    unadapted = metrics.get(f"unadapted_{metric.name}")
    if unadapted is not None:
        record = replace(record, gain=metrics[metric.name] - unadapted)
    moved = "answers that change" if metric.percent else "answers move by (deviations of the target)"
    facts = [
        ("relative change of the adapted weights", f"{record.weight_change:.1%}"),
        (moved, f"{record.answer_change:.1%}" if metric.percent else f"{record.answer_change:.3f}"),
    ]
    if record.gain is not None:
        facts.append((f"{metric.name} of the whole test split", metric.text(record.gain, sign=True)))
    if record.agreement is not None:
        facts.append(("nearest training examples with their entry's class", f"{record.agreement.share:.1%}"))
        facts.append(("the same by chance", f"{record.agreement.chance:.1%}"))
    verdicts = [f"{verdict[0].upper()}{verdict[1:]}." for verdict in record.verdicts()]
    text = (
        f"Means over {record.examples:,} test {report_input.nouns}: how far the inner update moves the weights that "
        "are adapted, relative to their length, and what becomes of the answers."
    )
    return Section(
        anchor="acting",
        title="What adaptation does",
        text=(text, *verdicts),
        facts=tuple(facts),
        numbers=record.to_json() | {"findings": record.verdicts()},
    )


def _record(report_input: ReportInput, test: Observed | None, train: Observed | None) -> AdaptationRecord | None:
    classifier = report_input.adaptive
    if classifier is not None:
        if test is None or test.features is None or train is None or train.features is None:
            return None
        agreement = entry_agreement(classifier, train.features, train.labels)
        return replace(effect_on(classifier, test.features), agreement=agreement)
    model = report_input.artifact.model
    if not isinstance(model, HasNeighbors):
        return None
    indices, _ = sample(report_input.data.test, report_input.options.images)
    return effect_on(model, model_queries(model, report_input.artifact.preprocessing, report_input.data.test, indices))
