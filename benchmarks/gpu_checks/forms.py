"""Static forms that are compared: a model, and the same network without its dictionary."""

from dataclasses import dataclass

import torch
from torch import nn

from gpu_checks.models import CheckedModel
from mnexport.forms.dispatch import static_form, without_adaptation
from mnexport.forms.mixed_precision import with_lowered_backbone
from mnexport.forms.plan import Calibration, FormPlan


@dataclass(frozen=True, kw_only=True)
class Forms:
    """Static forms of a model in float32, on the CPU.

    Args:
        adaptive: module, inputs -> outputs.
        vanilla: module without adaptation.
        label: form of the adaptive module, with its rank where it has one.
    """

    adaptive: nn.Module
    vanilla: nn.Module
    label: str


def forms_of(checked: CheckedModel) -> Forms:
    """Make the static forms of a model.

    Raises:
        MnExportError: the model has none.
    """
    calibration = Calibration.halves(checked.samples, "samples") if checked.form == "auto" else None
    plan = FormPlan(form=checked.form, calibration=calibration)
    adaptive = static_form(checked.model, plan, checked.preprocessing)
    vanilla = static_form(without_adaptation(checked.model), FormPlan(), checked.preprocessing)
    rank = adaptive.record.get("rank")
    label = adaptive.form + (f", rank {rank}" if rank else "")
    return Forms(adaptive=adaptive.module, vanilla=vanilla.module, label=label)


def lowered(forms: Forms, dtype: str) -> Forms:
    """Lower the backbones of both forms to ``dtype``; float32 leaves them as they are."""
    if dtype == "float32":
        return forms
    kind: torch.dtype = getattr(torch, dtype)
    adaptive, vanilla = (with_lowered_backbone(module, kind) for module in (forms.adaptive, forms.vanilla))
    return Forms(adaptive=adaptive, vanilla=vanilla, label=forms.label)
