"""Section of single learned numbers: step size, scale of the logits, iFiLM."""

from torch import Tensor

from mntrain.analysis.report_input import ReportInput
from mntrain.analysis.sections.content import Section
from mntrain.layers.heads import CosineHead
from mntrain.layers.ifilm import IFiLM
from mntrain.models.neighbors import HasNeighbors


def learned_section(report_input: ReportInput) -> Section | None:
    """Show step size α, scale τ and the number of iFiLM layers; None where the model has none of them."""
    facts: list[tuple[str, str]] = []
    numbers: dict[str, object] = {}
    model = report_input.artifact.model
    if report_input.adaptive is not None:
        size, count = report_input.adaptive.step_size, report_input.adaptive.step_count
        facts.append((f"step size α, {count} step{'s' * (count != 1)}", _spread(size)))
        numbers["step_size"] = {"min": float(size.min()), "median": float(size.median()), "max": float(size.max())}
        numbers["steps"] = count
    elif isinstance(model, HasNeighbors):
        facts.append(("step size α of all layers", _spread(model.step_size)))
        numbers["step_size"] = float(model.step_size)
    head = getattr(model, "head", None)
    if isinstance(head, CosineHead):
        facts.append(("scale τ of the logits", f"{float(head.scale):.3f}"))
        numbers["scale"] = float(head.scale)
    layers = [module for module in model.modules() if isinstance(module, IFiLM)]
    if layers:
        entries = len(layers[0].keys)
        facts.append(("iFiLM", f"{len(layers)} layers of {entries} entries"))
        numbers["ifilm"] = {"layers": len(layers), "entries": entries}
    if not facts:
        return None
    return Section(anchor="learned", title="Learned numbers", facts=tuple(facts), numbers=numbers)


def _spread(values: Tensor) -> str:
    if values.numel() == 1:
        return f"{float(values):.4f}"
    return f"median {float(values.median()):.4f} ({float(values.min()):.4f} to {float(values.max()):.4f})"
