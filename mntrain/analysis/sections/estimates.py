"""Section of the estimates beside the truth, before and after adaptation."""

from typing import Any

from matplotlib.figure import Figure as Drawing
from torch import Tensor

from mntrain.analysis.estimates import Estimates
from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Figure, Section, Table, figure, percent
from mntrain.plotting.style import COLORS, plain

_MOST_DRAWN = 8  # targets


def estimates_section(report_input: ReportInput, estimates: Estimates) -> Section:
    """Draw every estimate against its target, with the errors before and after the inner update."""
    text = f"{len(estimates.targets):,} of {estimates.total:,} test rows; errors are of standardised targets."
    if estimates.unadapted is not None:
        text += " The same network answers as it is, and after the inner update of all its layers."
    together = _errors(estimates)
    numbers: dict[str, Any] = {"rows": len(estimates.targets)} | together
    of_targets = tuple(zip(report_input.targets, estimates.by_target(), strict=True))
    figures = [
        drawing
        for position, (target, one) in enumerate(of_targets[:_MOST_DRAWN])
        for drawing in _figures(target, one, f"-{position}" if position else "")
    ]
    table = None
    if len(of_targets) > 1:
        text += " The figures above the drawings are means over all targets; the table has those of each."
        if len(of_targets) > _MOST_DRAWN:
            text += f" The first {_MOST_DRAWN} of {len(of_targets)} targets are drawn."
        numbers["targets"] = {target: _errors(one) for target, one in of_targets}
        headings = ("target", *(name for name, _ in _facts(together)))
        rows = tuple((name, *(value for _, value in _facts(errors))) for name, errors in numbers["targets"].items())
        table = Table(headings=headings, rows=rows)
    return Section(
        anchor="estimates",
        title="Estimates and truth",
        text=(text,),
        facts=_facts(together),
        figures=tuple(figures),
        table=table,
        numbers=numbers,
    )


def _errors(estimates: Estimates) -> dict[str, float]:
    """Compute errors after and before the inner update, and the share of values that it brought closer."""
    errors = {"mse": _mse(estimates.values, estimates.targets)}
    if estimates.unadapted is None:
        return errors
    after, before = ((values - estimates.targets).abs() for values in (estimates.values, estimates.unadapted))
    closer = float((after < before).double().mean())
    return errors | {"unadapted_mse": _mse(estimates.unadapted, estimates.targets), "share_closer": closer}


def _facts(errors: dict[str, float]) -> tuple[tuple[str, str], ...]:
    if "unadapted_mse" not in errors:
        return (("mse", f"{errors['mse']:.4f}"),)
    return (
        ("mse before", f"{errors['unadapted_mse']:.4f}"),
        ("mse after", f"{errors['mse']:.4f}"),
        ("brought closer", percent(errors["share_closer"])),
    )


def _figures(target: str, estimates: Estimates, suffix: str) -> list[Figure]:
    """Draw the estimates of one target, those before the inner update first; ``suffix`` tells drawings apart."""
    drawn = [("estimates", estimates.values, "")]
    if estimates.unadapted is not None:
        drawn.insert(0, ("unadapted", estimates.unadapted, "before adaptation, "))
    return [
        _scatter(
            f"{name}{suffix}",
            target,
            estimates.targets,
            values,
            f"{when}mse {_mse(values, estimates.targets):.4f}",
        )
        for name, values, when in drawn
    ]


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
        alt=f"Scatter of {len(targets)} estimates of {target} against their targets, {errors}",
        caption=f"Estimate of {target} against the truth, {errors}",
    )
