"""Section of the estimates beside the truth, before and after adaptation."""

from matplotlib.figure import Figure as Drawing
from torch import Tensor

from mntrain.analysis.estimates import Estimates
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Figure, Section, figure, percent
from mntrain.plotting.style import COLORS, plain


def estimates_section(report_input: ReportInput, estimates: Estimates) -> Section:
    """Draw every estimate against its target, with the errors before and after the inner update."""
    target = report_input.target or ""
    mse = _mse(estimates.values, estimates.targets)
    text = f"{len(estimates.targets):,} of {estimates.total:,} test rows; errors are of standardised targets."
    facts = [("mse", f"{mse:.4f}")]
    numbers: dict[str, float | int] = {"rows": len(estimates.targets), "mse": mse}
    figures = [_scatter("estimates", target, estimates.targets, estimates.values, f"mse {mse:.4f}")]
    if estimates.unadapted is not None:
        before = _mse(estimates.unadapted, estimates.targets)
        closer = (
            ((estimates.values - estimates.targets).abs() < (estimates.unadapted - estimates.targets).abs())
            .double()
            .mean()
        )
        text += " The same network answers as it is, and after the inner update of all its layers."
        facts = [
            ("mse before", f"{before:.4f}"),
            ("mse after", f"{mse:.4f}"),
            ("brought closer", percent(float(closer))),
        ]
        numbers |= {"unadapted_mse": before, "share_closer": float(closer)}
        errors = f"before adaptation, mse {before:.4f}"
        figures.insert(0, _scatter("unadapted", target, estimates.targets, estimates.unadapted, errors))
    return Section(
        anchor="estimates",
        title="Estimates and truth",
        text=(text,),
        facts=tuple(facts),
        figures=tuple(figures),
        numbers=numbers,
    )


def _mse(values: Tensor, targets: Tensor) -> float:
    return float((values.double() - targets.double()).square().mean())


def _scatter(name: str, target: str, targets: Tensor, values: Tensor, errors: str) -> Figure:
    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        low, high = float(targets.min()), float(targets.max())
        axes.plot([low, high], [low, high], color=COLORS[7], linewidth=1)
        axes.scatter(targets.numpy(), values.numpy(), s=6, color=COLORS[0], alpha=0.35, linewidths=0)
        axes.set_xlabel(f"{plain(target, 30)}, standardised")
        axes.set_ylabel("estimate")

    return figure(
        name,
        draw,
        size=(4.6, 4.4),
        alt=f"Scatter of {len(targets)} estimates against their targets, {errors}",
        caption=f"Estimate against target, {errors}",
    )
