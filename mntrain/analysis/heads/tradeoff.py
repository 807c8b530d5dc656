"""Section of the trade-off between classes of few training examples and all classes."""

from __future__ import annotations

from dataclasses import asdict

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.sections.content import Section, figure
from mntrain.heads.comparison import HeadComparison
from mntrain.heads.tradeoff import draw_tradeoff


def tradeoff_section(heads: HeadComparison) -> Section | None:
    """Draw every method as a point, and settings of methods as curves; None without classes of few."""
    if not heads.points:
        return None

    def draw(drawing: Drawing) -> None:
        draw_tradeoff(drawing.subplots(), heads.points, heads.curves)

    shown = ", ".join(f"{point.method} {point.few:.1%} / {point.all:.1%}" for point in heads.points)
    return Section(
        anchor="tradeoff",
        title="Few against all",
        text=(
            "A method is better than a control where its point lies above the control's curve: it gains more on "
            "classes of few training examples at the same accuracy on all classes. Settings of points were chosen on "
            "the validation rows. Bars are deviations over stores that have test rows of few, or over the seeds of one "
            "store.",
        ),
        figures=(
            figure(
                "tradeoff",
                draw,
                size=(7.6, 4.4),
                alt=f"Test accuracy on classes of few and on all classes: {shown}",
                caption="Test accuracy on classes of few against that on all classes",
            ),
        ),
        numbers={
            "points": [asdict(point) for point in heads.points],
            "curves": [asdict(curve) for curve in heads.curves],
        },
    )
