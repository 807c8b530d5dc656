"""Section on what adaptation does: how far weights and answers move, and whether neighbors mean something."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure as Drawing

from mntrain.acting.faithfulness import Faithfulness
from mntrain.acting.measuring import Sample, measure
from mntrain.acting.record import AdaptationRecord
from mntrain.analysis.observation import Observed, sample
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Figure, Section, Table, figure
from mntrain.data.images import ImageSet
from mntrain.data.tables import TableSet
from mntrain.models.neighbors import HasNeighbors
from mntrain.plotting.style import COLORS
from mntrain.training.evaluation import Metric, metric_of


def acting_section(
    report_input: ReportInput, test: Observed | None = None, train: Observed | None = None
) -> Section | None:
    """Tell what adaptation does to weights and answers, and what neighbors show; None where the family has none.

    Args:
        report_input: the run.
        test, train: answers of a classifier; None for a regressor.
    """
    measured = _measured(report_input, test, train)
    if measured is None:
        return None
    config = report_input.artifact.config
    metric = metric_of(config.metrics["test"], config.experiment.name)
    record = _with_whole_split(measured, config.metrics, metric)
    verdicts = [f"{verdict[0].upper()}{verdict[1:]}." for verdict in record.verdicts()]
    text = (
        f"Means over {record.examples:,} test {report_input.nouns}: how far the inner update moves the weights that "
        "are adapted, relative to their length, what becomes of the answers, and what their neighbors show."
    )
    faithfulness = record.faithfulness
    return Section(
        anchor="acting",
        title="What adaptation does",
        text=(text, *verdicts),
        facts=(*_effect_facts(record, metric), *_neighbor_facts(record)),
        table=_measures(record),
        figures=() if faithfulness is None else (_curve(faithfulness),),
        numbers=record.to_json() | {"findings": record.verdicts()},
    )


def _measured(report_input: ReportInput, test: Observed | None, train: Observed | None) -> AdaptationRecord | None:
    model = report_input.artifact.model
    if not isinstance(model, HasNeighbors):
        return None
    if report_input.adaptive is None:
        return measure(
            model,
            test=_sample(report_input, model, report_input.data.test),
            train=_sample(report_input, model, report_input.data.train),
        )
    if test is None or test.features is None or train is None or train.features is None:
        return None
    observed = [
        Sample(positions=part.indices, queries=part.features, targets=part.examples.targets)
        for part in (test, train)
        if part.features is not None
    ]
    return measure(model, test=observed[0], train=observed[1])


def _sample(report_input: ReportInput, model: HasNeighbors, examples: ImageSet | TableSet) -> Sample:
    indices, _ = sample(examples, report_input.options.images)
    return Sample.of(model, report_input.artifact.preprocessing, examples, indices)


def _with_whole_split(record: AdaptationRecord, metrics: dict[str, object], metric: Metric) -> AdaptationRecord:
    """Add what training has counted on the whole test split."""
    stored, test = AdaptationRecord.from_metrics(metrics), metrics["test"]
    assert isinstance(test, dict)
    unadapted = test.get(f"unadapted_{metric.name}")
    if unadapted is not None:
        record = replace(record, gain=test[metric.name] - unadapted)
    if stored is None:
        return record
    return replace(record, corrected=stored.corrected, broken=stored.broken, training_score=stored.training_score)


def _effect_facts(record: AdaptationRecord, metric: Metric) -> list[tuple[str, str]]:
    moved = "answers that change" if metric.percent else "answers move by (deviations of the target)"
    facts = [
        ("relative change of the adapted weights", f"{record.weight_change:.1%}"),
        (moved, f"{record.answer_change:.1%}" if metric.percent else f"{record.answer_change:.3f}"),
    ]
    if record.gain is not None:
        facts.append((f"{metric.name} of the whole test split", metric.text(record.gain, sign=True)))
    if record.corrected is not None:
        facts.append(("corrected and broken on the whole test split", f"{record.corrected:,} and {record.broken:,}"))
    return facts


def _neighbor_facts(record: AdaptationRecord) -> list[tuple[str, str]]:
    facts = []
    if record.effective_entries is not None:
        facts.append(("effective entries of an answer", f"{record.effective_entries:,.1f}"))
    if record.value_share is not None:
        facts.append(("largest share of an entry's values", f"{record.value_share:.1%}"))
    return facts


def _measures(record: AdaptationRecord) -> Table | None:
    """Measures of neighbors beside what chance, or random entries, would give."""
    rows = []
    if (entries := record.consistency) is not None:
        what = "consistency: training examples nearest to an entry that have its class"
        rows.append((what, f"{entries.share:.1%}", f"{entries.chance:.1%}"))
    if (answers := record.agreement) is not None:
        what = f"agreement: the {answers.nearest} largest neighbors of an answer that have its class"
        rows.append((what, f"{answers.share:.1%}", f"{answers.chance:.1%}"))
    if record.faithfulness is not None:
        rows.extend(_faithfulness_rows(record.faithfulness))
    return Table(headings=("measure of neighbors", "here", "by chance"), rows=tuple(rows)) if rows else None


def _faithfulness_rows(part: Faithfulness) -> list[tuple[str, str, str]]:
    largest = f"without its {part.left_out} largest neighbors"
    signed = ("comprehensiveness: the same with its sign", part.text(part.named), part.text(part.random))
    return [
        (f"faithfulness: change of an answer {largest}", part.text(part.named_size), part.text(part.random_size)),
        *([signed] if part.measure == "comprehensiveness" else []),
        ("answers that move further without them than without random entries", f"{part.further:.0%}", "50%"),
        (f"attention of the {part.left_out} largest neighbors", f"{part.attention:.1%}", ""),
        ("for comparison: change of an answer without adaptation", part.text(part.whole_size), ""),
    ]


def _curve(part: Faithfulness) -> Figure:
    """Draw how far answers move without more and more entries."""
    unit = "probability of the answer" if part.measure == "comprehensiveness" else "deviations of the target"

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.plot(part.curve_left_out, part.curve_named, "o-", color=COLORS[0], label="largest attention")
        axes.plot(part.curve_left_out, part.curve_random, "s--", color=COLORS[1], label="random")
        axes.axhline(part.whole_size, color=COLORS[-1], linestyle=":", linewidth=1, label="without adaptation")
        axes.set_xscale("log")
        axes.set_xticks(part.curve_left_out, [str(count) for count in part.curve_left_out])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("entries left out")
        axes.set_ylabel(f"mean |change|, {unit}")
        axes.legend()

    last = part.curve_left_out[-1]
    return figure(
        "faithfulness",
        draw,
        alt=f"Mean change of answers without their {last} largest neighbors ({part.text(part.curve_named[-1])}), "
        f"without as many random entries ({part.text(part.curve_random[-1])}), and without adaptation",
        caption=f"{part.answers:,} answers without their largest neighbors, and without random ones: the further the "
        "lines lie apart, the more the named neighbors explain",
    )
