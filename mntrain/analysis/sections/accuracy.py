"""Section of the accuracy before and after adaptation."""

from dataclasses import asdict

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.accuracy import adaptation_accuracy
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, Table, figure, percent
from mntrain.plotting.style import COLORS, INK, plain

_MOST_DRAWN = 40


def accuracy_section(report_input: ReportInput, test: Observed) -> Section | None:
    """Show the accuracy overall and by class; None where the family does not adapt."""
    if test.unadapted is None:
        return None
    accuracy = adaptation_accuracy(test.unadapted, test.logits, test.labels)
    rows = [
        (name, class_accuracy)
        for name, class_accuracy in zip(report_input.labels, accuracy.classes, strict=True)
        if class_accuracy.images
    ]
    drawn = [
        (name, 100 * class_accuracy.before, 100 * class_accuracy.after)
        for name, class_accuracy in rows[:_MOST_DRAWN]
        if class_accuracy.before is not None and class_accuracy.after is not None
    ]

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        for row, (_, before, after) in enumerate(drawn):
            axes.plot([before, after], [row, row], color=INK, linewidth=1)
        places = range(len(drawn))
        axes.plot([before for _, before, _ in drawn], places, "o", color=COLORS[1], label="before", markersize=5)
        axes.plot([after for _, _, after in drawn], places, "o", color=COLORS[0], label="after", markersize=5)
        axes.set_yticks(places, [plain(name, 16) for name, _, _ in drawn])
        axes.invert_yaxis()
        axes.set_xlabel("accuracy (%)")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    table = Table(
        headings=("class", report_input.nouns, "before", "after", "change"),
        rows=tuple(
            (
                name,
                str(class_accuracy.images),
                percent(class_accuracy.before),
                percent(class_accuracy.after),
                f"{class_accuracy.after - class_accuracy.before:+.2%}",
            )
            for name, class_accuracy in rows
            if class_accuracy.before is not None and class_accuracy.after is not None
        ),
    )
    return Section(
        anchor="adaptation",
        title="Accuracy before and after adaptation",
        text=(
            f"The same model answers with its head as it is, and after the inner update, on {len(test.examples):,} of "
            f"{test.total:,} test {report_input.nouns}. Adaptation corrects {accuracy.corrected:,} of them and breaks "
            f"{accuracy.broken:,}.",
        ),
        facts=(
            ("before", percent(accuracy.before)),
            ("after", percent(accuracy.after)),
            ("change", f"{accuracy.after - accuracy.before:+.2%}"),
        ),
        figures=(
            figure(
                "accuracy",
                draw,
                size=(4.6, max(2.6, 1.0 + 0.24 * len(drawn))),
                alt=f"Accuracy of {len(drawn)} classes before and after adaptation; the table has the numbers",
                caption="Accuracy by class, before and after the inner update"
                + (f" (the first {_MOST_DRAWN} classes)" if len(rows) > _MOST_DRAWN else ""),
            ),
        ),
        table=table,
        numbers={
            "examples": len(test.examples),
            "before": accuracy.before,
            "after": accuracy.after,
            "corrected": accuracy.corrected,
            "broken": accuracy.broken,
            "classes": {name: asdict(class_accuracy) for name, class_accuracy in rows},
        },
    )
