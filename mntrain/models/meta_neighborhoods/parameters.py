"""Parameters of the adaptation: the learned inner step size α, and the groups that train it and the dictionary.

Shapes: d features, C classes. α is [] (scalar), [d] (per feature, shared over classes) or [C, d] (per parameter):
a scalar or a diagonal matrix in section 2.2 of Meta-Neighborhoods.
"""

import torch
from torch import Tensor, nn

from mntrain.models.base import ParameterGroup
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig, StepSizeForm


def initial_step_size(form: StepSizeForm, weight: Tensor, start: float) -> Tensor:
    """Make a step size for ``weight`` [C, d] with every element equal to ``start``."""
    shape = {"scalar": (), "per_feature": weight.shape[1:], "per_parameter": weight.shape}[form]
    return torch.full(tuple(shape), float(start))


def attach_step_size(module: nn.Module, start: Tensor, *, learned: bool) -> None:
    """Give ``module`` its ``raw_step_size``: a parameter, or a buffer where it is not learned. Both are saved.

    Its absolute value is the step size, so that no optimiser step can turn descent into ascent.
    """
    if learned:
        module.register_parameter("raw_step_size", nn.Parameter(start))
    else:
        module.register_buffer("raw_step_size", start)


def adaptation_groups(
    config: MetaNeighborhoodsConfig, keys: nn.Parameter, values: nn.Parameter | None, raw_step_size: Tensor
) -> list[ParameterGroup]:
    """Group dictionary and step size, each at its own rate and without weight decay.

    Args:
        config: the rates.
        keys: k.
        values: values or their logits; None where they are fixed.
        raw_step_size: a parameter, or a buffer where it is not learned.
    """
    groups = []
    # Values at the rate of the keys share their group, as in runs from before values had a rate of their own.
    if values is None or config.value_rate == 1:
        together = (keys,) if values is None else (keys, values)
        groups.append(ParameterGroup(name="dictionary", parameters=together, decay=False))
    else:
        groups.append(ParameterGroup(name="keys", parameters=(keys,), decay=False))
        groups.append(ParameterGroup(name="values", parameters=(values,), decay=False, rate=config.value_rate))
    if isinstance(raw_step_size, nn.Parameter):
        rate = config.step_size_rate
        groups.append(ParameterGroup(name="step_size", parameters=(raw_step_size,), decay=False, rate=rate))
    return groups
