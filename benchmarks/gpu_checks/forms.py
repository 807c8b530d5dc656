"""The two static forms that are compared: adaptive, and the same network without its dictionary."""

from dataclasses import dataclass

import torch
from torch import nn

from gpu_checks.subjects import Subject
from mnexport.forms.dispatch import static_form, without_adaptation
from mnexport.forms.mixed_precision import with_lowered_backbone
from mnexport.forms.plan import Calibration, FormPlan


@dataclass(frozen=True, kw_only=True)
class Forms:
    """In float32, on the CPU.

    Args:
        adaptive: inputs -> outputs.
        vanilla: the same without adaptation.
        label: form of the adaptive one, with its rank where it has one.
    """

    adaptive: nn.Module
    vanilla: nn.Module
    label: str


def forms_of(subject: Subject) -> Forms:
    """The static forms of a model.

    Raises:
        MnExportError: it has none.
    """
    calibration = Calibration.halves(subject.samples, "samples") if subject.form == "auto" else None
    plan = FormPlan(form=subject.form, calibration=calibration)
    found = static_form(subject.model, plan, subject.preprocessing)
    vanilla = static_form(without_adaptation(subject.model), FormPlan(), subject.preprocessing)
    rank = found.record.get("rank")
    label = found.form + (f", rank {rank}" if rank else "")
    return Forms(adaptive=found.module, vanilla=vanilla.module, label=label)


def lowered(forms: Forms, dtype: str) -> Forms:
    """The same with the backbone in ``dtype``; in float32 they are as they were."""
    if dtype == "float32":
        return forms
    kind: torch.dtype = getattr(torch, dtype)
    adaptive, vanilla = (with_lowered_backbone(module, kind) for module in (forms.adaptive, forms.vanilla))
    return Forms(adaptive=adaptive, vanilla=vanilla, label=forms.label)
