"""Frozen parts: no gradients, and statistics that stay while the rest trains."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.layers.frozen import freeze, rest
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.models.base import Batch, Model
from mntrain.models.families import FAMILIES
from mntrain.training.optimizer import build_optimizer
from mntrain.training_config import TrainingConfig

SIMILARITY = SimilarityConfig(mode="dynamic", hidden=4, kernel_shape=True)


def built(ifilm: bool = False) -> Model:
    torch.manual_seed(0)
    config = BackboneConfig(name="cnn4", width=0.25, ifilm=ifilm, ifilm_entries=3, similarity=SIMILARITY)
    entry = FAMILIES["vanilla"]
    return entry.build(entry.config(), partial(build_backbone, config, (3, 16, 16)), 4)


def trained(model: Model, steps: int = 3) -> dict[str, torch.Tensor]:
    """Weights and statistics before, by name."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig(learning_rate=1e-2))
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model.loss(Batch(torch.randn(8, 3, 16, 16), torch.arange(8) % 4))[0].backward()
        optimizer.step()
    return before


def moved(model: Model, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


def test_a_frozen_backbone_changes_in_nothing() -> None:
    model = built()
    freeze(model.backbone)  # type: ignore[arg-type]
    assert moved(model, trained(model)) == {"head.weight", "head.scale"}


def test_a_frozen_network_learns_its_similarities_alone() -> None:
    model = built(ifilm=True)
    freeze(model.backbone, but_additions=True)  # type: ignore[arg-type]
    names = moved(model, trained(model))
    additions = ("predictor", "shape", "keys", "scales", "shifts", "head")
    assert names
    assert all(any(word in name for word in additions) for name in names)
    expected = {name for name in model.state_dict() if any(word in name for word in additions)}
    assert {name for name in expected if "num_batches" not in name} <= names


def test_train_leaves_frozen_layers_in_evaluation_and_no_others() -> None:
    module = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.Dropout()), nn.BatchNorm1d(2))
    freeze(module[0])
    freeze(module[1])
    module.train()
    rest(module)
    assert [layer.training for layer in (module[0], module[1], module[1][0], module[2])] == [False, False, False, True]
