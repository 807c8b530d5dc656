"""Section of the training curves."""

from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Figure, Section, figure
from mntrain.plotting.style import COLORS, plain

_PARTS = ("train", "validation")


def curves_section(report_input: ReportInput) -> Section | None:
    """Draw every metric of ``metrics.csv`` with a training and a validation column; None without an epoch."""
    history = report_input.history
    epochs = history.get("epoch", [])
    names = [column.removeprefix("train_") for column in history if column.startswith("train_")]
    names = [name for name in names if f"validation_{name}" in history]
    if not epochs or not names:
        return None
    best = report_input.artifact.config.metrics.get("best_epoch")
    best = best if isinstance(best, int) and 0 < best <= len(epochs) else None
    return Section(
        anchor="curves",
        title="Training curves",
        text=()
        if best is None
        else (f"The artifact holds the weights of epoch {best}, the best on the validation split (dashed line).",),
        figures=tuple(_curve(history, name, best) for name in names),
        numbers={"epochs": len(epochs), "best_epoch": best},
    )


def _curve(history: dict[str, list[float]], name: str, best: int | None) -> Figure:
    def draw(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        marker = "o" if len(history["epoch"]) < 3 else ""
        for part, color in zip(_PARTS, COLORS, strict=False):
            axes.plot(history["epoch"], history[f"{part}_{name}"], color=color, label=part, marker=marker)
        if best is not None:
            axes.axvline(best, color=COLORS[-1], linestyle="--", linewidth=1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel(plain(name))
        axes.legend()

    last = {part: history[f"{part}_{name}"][-1] for part in _PARTS}
    return figure(
        f"curve-{name}",
        draw,
        alt=f"{name} by epoch: {last['train']:.4g} on training data and {last['validation']:.4g} on validation data at "
        "the end",
        caption=f"{name} by epoch",
    )
