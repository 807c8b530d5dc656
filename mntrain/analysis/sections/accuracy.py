"""Accuracy before and after adaptation."""

from dataclasses import asdict

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.accuracy import adaptation_accuracy
from mntrain.analysis.observation import Observed
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, Table, figure, percent
from mntrain.plotting.style import COLORS, INK, plain

_MOST_DRAWN = 40


def accuracy_section(subject: ReportInput, test: Observed) -> Section | None:
    """Overall and by class; None where the family does not adapt."""
    if test.unadapted is None:
        return None
    found = adaptation_accuracy(test.unadapted, test.logits, test.labels)
    rows = [(name, one) for name, one in zip(subject.labels, found.classes, strict=True) if one.images]
    drawn = [
        (name, 100 * one.before, 100 * one.after)
        for name, one in rows[:_MOST_DRAWN]
        if one.before is not None and one.after is not None
    ]

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        for place, (_, before, after) in enumerate(drawn):
            axes.plot([before, after], [place, place], color=INK, linewidth=1)
        places = range(len(drawn))
        axes.plot([one[1] for one in drawn], places, "o", color=COLORS[1], label="before", markersize=5)
        axes.plot([one[2] for one in drawn], places, "o", color=COLORS[0], label="after", markersize=5)
        axes.set_yticks(places, [plain(name, 16) for name, _, _ in drawn])
        axes.invert_yaxis()
        axes.set_xlabel("accuracy (%)")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    table = Table(
        headings=("class", subject.nouns, "before", "after", "change"),
        rows=tuple(
            (name, str(one.images), percent(one.before), percent(one.after), f"{one.after - one.before:+.2%}")
            for name, one in rows
            if one.before is not None and one.after is not None
        ),
    )
    return Section(
        anchor="adaptation",
        title="Accuracy before and after adaptation",
        text=(
            f"The same model answers with its head as it is, and after the inner update, on {len(test.examples):,} of "
            f"{test.total:,} test {subject.nouns}. Adaptation corrects {found.corrected:,} of them and breaks "
            f"{found.broken:,}.",
        ),
        facts=(
            ("before", percent(found.before)),
            ("after", percent(found.after)),
            ("change", f"{found.after - found.before:+.2%}"),
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
            "before": found.before,
            "after": found.after,
            "corrected": found.corrected,
            "broken": found.broken,
            "classes": {name: asdict(one) for name, one in rows},
        },
    )
