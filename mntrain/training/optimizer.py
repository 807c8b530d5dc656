"""The optimiser over a model's parameter groups, and the learning rate of every epoch."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from mntrain.models.base import ParameterGroup
from mntrain.training_config import TrainingConfig

_NO_RATES = MappingProxyType[str, float]({})


def build_optimizer(
    groups: list[ParameterGroup], config: TrainingConfig, rates: Mapping[str, float] = _NO_RATES
) -> Optimizer:
    """Build AdamW, or SGD with momentum, with weight decay on the groups that decay.

    PyTorch multiplies the decay by the learning rate at each step, so the decay falls with the rate, as in the authors'
    code.

    Args:
        groups: all parameters.
        config: rates, decay and the choice between the two.
        rates: factor on the learning rate of each group that states a distance
            (:func:`mntrain.training.rates.automatic_rates`).
    """
    factors = {group.name: group.rate if group.distance is None else rates[group.name] for group in groups}
    parts = [
        {
            "name": group.name,
            "params": list(group.parameters),
            "rate": factors[group.name],
            "lr": config.learning_rate * factors[group.name],
            "weight_decay": _decay(group, config),
        }
        for group in groups
    ]
    if config.optimizer == "sgd":
        return SGD(parts, lr=config.learning_rate, momentum=config.momentum)
    return AdamW(parts, lr=config.learning_rate)


def _decay(group: ParameterGroup, config: TrainingConfig) -> float:
    if group.name == "head":
        return config.head_decay
    return config.weight_decay if group.decay else 0.0


def check_optimizer(optimizer: Optimizer) -> None:
    """Refuse a loaded state that does not fit the parameters; PyTorch does not check.

    Raises:
        ValueError: running means of another shape.
    """
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.dim() and value.shape != parameter.shape:
                raise ValueError(f"{name} has shape {list(value.shape)}, its parameter {list(parameter.shape)}")


def learning_rate_at(epoch: int, config: TrainingConfig) -> float:
    """Learning rate of epoch ``epoch`` (from 0): drops at one share of the epochs or several, or half a cosine.

    A function of the configuration alone, so that a resumed run cannot carry an old schedule along.
    """
    if config.schedule == "cosine":
        return config.learning_rate * (1 + math.cos(math.pi * epoch / config.epochs)) / 2
    if config.milestones:
        passed = sum(epoch >= max(1, round(config.epochs * share)) for share in config.milestones)
        return config.learning_rate * config.drop_factor**passed
    if config.drop_every:
        return config.learning_rate * config.drop_factor ** (epoch // config.drop_every)
    return config.learning_rate * (config.drop_factor if epoch >= config.drop_epoch else 1.0)
