"""The learning rate of every epoch, and what weight decay acts on."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from mntrain.errors import ConfigError
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


def test_the_rate_drops_at_every_milestone() -> None:
    config = TrainingConfig(epochs=8, milestones=(0.25, 0.75), drop_factor=0.1)
    assert [learning_rate_at(epoch, config) for epoch in range(8)] == pytest.approx(
        [1e-3] * 2 + [1e-4] * 4 + [1e-5] * 2
    )


def test_a_cosine_falls_from_the_whole_rate_over_half_of_it_towards_0() -> None:
    config = TrainingConfig(epochs=4, schedule="cosine")
    expected = [1e-3 * (1 + math.cos(math.pi * epoch / 4)) / 2 for epoch in range(4)]
    assert [learning_rate_at(epoch, config) for epoch in range(4)] == pytest.approx(expected)
    assert expected[2] == pytest.approx(5e-4)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"milestones": (0.5, 0.5)}, "that rise, each above 0 and below 1"),
        ({"milestones": (0.5, 1.0)}, "that rise, each above 0 and below 1"),
        ({"milestones": (0.5,), "drop_every": 3}, "training.milestones is .* and training.drop_every 3"),
        ({"schedule": "cosine", "milestones": (0.5,)}, "training.schedule is 'cosine' and training.milestones"),
        ({"freeze": "network"}, "training.freeze is 'network'; it must be none where training.start is null"),
    ],
)
def test_schedules_that_contradict_each_other_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainingConfig(**fields)


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


def test_the_decay_of_the_head_is_a_setting_of_its_own() -> None:
    groups = [
        ParameterGroup(name=name, parameters=(nn.Parameter(torch.ones(1)),), decay=name == "backbone")
        for name in ("backbone", "head", "dictionary")
    ]
    config = TrainingConfig(weight_decay=0.3, head_decay=0.2)
    decays = {part["name"]: part["weight_decay"] for part in build_optimizer(groups, config).param_groups}
    assert decays == {"backbone": 0.3, "head": 0.2, "dictionary": 0.0}
