"""The learning rate of every epoch, and what weight decay acts on."""

import pytest
import torch
from torch import nn

from mntrain.models.base import ParameterGroup
from mntrain.training.optimizer import build_optimizer, learning_rate_at
from mntrain.training_config import TrainingConfig


@pytest.mark.parametrize(
    ("epochs", "drop_at", "expected"),
    [
        (4, 0.75, [1e-3, 1e-3, 1e-3, 1e-4]),
        (4, 0.5, [1e-3, 1e-3, 1e-4, 1e-4]),
        (3, 1.0, [1e-3, 1e-3, 1e-3]),
        (1, 0.75, [1e-3]),
    ],
)
def test_the_rate_drops_once_after_the_configured_share(epochs: int, drop_at: float, expected: list[float]) -> None:
    config = TrainingConfig(epochs=epochs, drop_at=drop_at)
    assert [learning_rate_at(epoch, config) for epoch in range(epochs)] == pytest.approx(expected)


def test_decay_is_multiplied_by_the_rate_and_spares_its_groups() -> None:
    kept, decayed = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    groups = [
        ParameterGroup(name="head", parameters=(kept,), decay=False),
        ParameterGroup(name="backbone", parameters=(decayed,), decay=True),
    ]
    optimizer = build_optimizer(groups, TrainingConfig(learning_rate=0.1, weight_decay=0.5))
    kept.grad, decayed.grad = torch.zeros(3), torch.zeros(3)
    optimizer.step()
    torch.testing.assert_close(kept.detach(), torch.ones(3))
    torch.testing.assert_close(decayed.detach(), torch.full((3,), 1 - 0.1 * 0.5))
