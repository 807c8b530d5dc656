"""AdamW over a model's parameter groups, and its learning-rate schedule."""

import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import MultiStepLR

from mntrain.models.base import ParameterGroup
from mntrain.training.config import TrainingConfig


def build_optimizer(groups: list[ParameterGroup], config: TrainingConfig) -> AdamW:
    """AdamW with weight decay on the groups that ask for it.

    PyTorch multiplies the decay by the learning rate at each step, so it falls with the rate, as the authors' does.
    """
    return AdamW(
        [
            {
                "name": group.name,
                "params": list(group.parameters),
                "weight_decay": config.weight_decay if group.decay else 0.0,
            }
            for group in groups
        ],
        lr=config.learning_rate,
    )


def build_schedule(optimizer: torch.optim.Optimizer, config: TrainingConfig) -> MultiStepLR:
    """One drop by ``drop_factor`` at ``drop_epoch``; step it once an epoch."""
    return MultiStepLR(optimizer, milestones=[config.drop_epoch], gamma=config.drop_factor)
