"""Factors on the learning rate that are found from the length of a run, so that parameters can go a stated distance."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch.optim import Optimizer

from mntrain.errors import ConfigError
from mntrain.models.base import ParameterGroup
from mntrain.training.optimizer import learning_rate_at, warm_up_factor
from mntrain.training.run_length import steps_of_an_epoch
from mntrain.training_config import TrainingConfig


def adam_reach(training: TrainingConfig, examples: int, *, first_epoch: int = 0) -> float:
    """Bound the way that Adam moves a parameter in a run: the sum of the learning rates of all steps.

    A step is hardly ever longer than its rate (Kingma and Ba, Adam, 2015, section 2.1).

    Args:
        training: epochs, batches and rates.
        examples: number of training examples.
        first_epoch: first epoch (from 0) in which the parameter is trained.
    """
    steps = steps_of_an_epoch(training, examples)
    rates = sum(
        learning_rate_at(epoch, training) * _mean_warm_up(epoch, training, steps)
        for epoch in range(first_epoch, training.epochs)
    )
    return steps * rates


def _mean_warm_up(epoch: int, training: TrainingConfig, steps: int) -> float:
    """Mean factor of the warm-up over the steps of an epoch (from 0); 1 in an epoch after it."""
    if epoch >= training.warm_up_epochs:
        return 1.0
    return sum(warm_up_factor(epoch + step / steps, training) for step in range(steps)) / steps


def automatic_rates(
    groups: Sequence[ParameterGroup], training: TrainingConfig, examples: int, *, first_epoch: int = 0
) -> dict[str, float]:
    """Find the factor on the learning rate of every group that states a distance: distance / reach, at least 1.

    Args:
        groups: of the model.
        training: epochs, batches and rates.
        examples: number of training examples.
        first_epoch: first epoch (from 0) in which these groups are trained.

    Returns:
        Group → factor; empty where no group states a distance.

    Raises:
        ConfigError: a group states a distance, but the optimiser is not Adam.
    """
    distances = {group.name: group.distance for group in groups if group.distance is not None}
    if distances and training.optimizer != "adamw":
        raise ConfigError(
            f"training.optimizer is {training.optimizer!r}, whose steps have no longest length, so that no rate 'auto' "
            f"of {' and '.join(distances)} can be found; give a number instead of auto, or use adamw."
        )
    reach = adam_reach(training, examples, first_epoch=first_epoch)
    return {name: max(1.0, distance / reach) if reach > 0 else 1.0 for name, distance in distances.items()}


def check_resumed_rates(optimizer: Optimizer, rates: Mapping[str, float], run: Path) -> None:
    """Refuse to go on with a run of another length, for which other rates would have been found.

    Args:
        optimizer: as a checkpoint left it.
        rates: group → factor, of the configuration to go on with.
        run: folder of the run.

    Raises:
        ConfigError: a factor is not that of the epochs behind the run.
    """
    for group in optimizer.param_groups:
        past, now = group.get("rate", 1.0), rates.get(group["name"])
        if now is not None and not math.isclose(past, now, rel_tol=1e-9):
            raise ConfigError(
                f"The automatic rate of {group['name']} was {past:.6g} in run {run}; with these training.epochs and "
                f"training.drop_at it would have been {now:.6g}. Keep them as they were, or start again with "
                "--overwrite."
            )
