"""The learned inner step size α (Meta-Neighborhoods, section 2.2: a scalar or a diagonal matrix).

Shapes: d features, C classes. α is [] (scalar), [d] (per feature, shared over classes) or [C, d] (per parameter).
"""

from typing import Literal

import torch
from torch import Tensor, nn

StepSizeForm = Literal["scalar", "per_feature", "per_parameter"]
STEP_SIZE_FORMS = ("scalar", "per_feature", "per_parameter")


def initial_step_size(form: StepSizeForm, weight: Tensor, start: float) -> Tensor:
    """A step size for ``weight`` [C, d], every element equal to ``start``."""
    shape = {"scalar": (), "per_feature": weight.shape[1:], "per_parameter": weight.shape}[form]
    return torch.full(tuple(shape), float(start))


def attach_step_size(module: nn.Module, start: Tensor, *, learned: bool) -> None:
    """Give ``module`` its ``raw_step_size``, a parameter or, where it is not learned, a buffer; saved in either case.

    Its absolute value is the step size, so that no optimiser step can turn descent into ascent.
    """
    if learned:
        module.register_parameter("raw_step_size", nn.Parameter(start))
    else:
        module.register_buffer("raw_step_size", start)
