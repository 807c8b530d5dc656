"""Section of features and the prototype of their class (Fig. 4)."""

from matplotlib.figure import Figure as Drawing

from mntrain.analysis.observation import Observed
from mntrain.analysis.prototypes import prototype_cosines
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section, figure, percent
from mntrain.plotting.style import COLORS


def prototypes_section(report_input: ReportInput, test: Observed) -> Section | None:
    """Draw the cosine to the true prototype before and after the update; None without neighbors or prototypes."""
    model = report_input.adaptive
    if model is None or test.features is None:
        return None
    cosines = prototype_cosines(model, test.features, test.labels)
    if cosines is None:
        return None
    before, after = cosines.before.numpy(), cosines.after.numpy()

    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
        axes.plot([low, high], [low, high], color=COLORS[7], linewidth=1)
        axes.scatter(before, after, s=6, color=COLORS[0], alpha=0.35, linewidths=0)
        axes.set_xlabel("cosine before the update")
        axes.set_ylabel("cosine after the update")
        axes.set_aspect("equal", adjustable="box")

    def draw_gain(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        axes.axhline(0, color=COLORS[7], linewidth=1)
        axes.scatter(before, after - before, s=6, color=COLORS[0], alpha=0.35, linewidths=0)
        axes.set_xlabel("cosine before the update")
        axes.set_ylabel("gain by the update")

    gain = float((after - before).mean())
    return Section(
        anchor="prototypes",
        title="Cosine to the true prototype",
        text=(
            "Each row of the head is the prototype of a class. A point is a test example: the cosine between its "
            "feature and the prototype of its own class, before and after the inner update. Above the line the update "
            "has brought them closer (Fig. 4 of the paper).",
        ),
        facts=(
            ("above the line", percent(cosines.share_closer)),
            ("mean before", f"{before.mean():.4f}"),
            ("mean after", f"{after.mean():.4f}"),
            ("mean gain", f"{gain:+.4f}"),
        ),
        figures=(
            figure(
                "prototypes",
                draw,
                size=(4.6, 4.4),
                alt=f"Scatter of {len(before)} test {report_input.nouns}: "
                f"{cosines.share_closer:.1%} lie above the diagonal",
                caption="Cosine between feature and true prototype, before and after",
            ),
            figure(
                "gain",
                draw_gain,
                size=(4.6, 4.4),
                alt=f"Scatter of the gain in cosine of {len(before)} test {report_input.nouns}; "
                f"the mean is {gain:+.4f}",
                caption="The same on a scale of its own: after minus before",
            ),
        ),
        numbers={
            "examples": len(before),
            "share_above_diagonal": cosines.share_closer,
            "mean_before": float(before.mean()),
            "mean_after": float(after.mean()),
        },
    )
