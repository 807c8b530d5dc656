"""Parameter groups of a dictionary and its step size, each at its own rate."""

from torch import Tensor, nn

from mntrain.models.base import ParameterGroup
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig


def adaptation_groups(
    config: MetaNeighborhoodsConfig, keys: nn.Parameter, values: nn.Parameter | None, raw_step_size: Tensor
) -> list[ParameterGroup]:
    """None of them decays.

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
