"""Parameters of backbones with similarity: what decays, and what is added to the loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.layers.frozen import freeze
from mntrain.layers.heads import build_head
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.sphere import orthogonality
from mntrain.models.backbone_groups import backbone_groups
from mntrain.models.vanilla.model import Vanilla


def network(**settings: Any) -> nn.Module:
    torch.manual_seed(0)
    config = BackboneConfig(name="cnn4", width=0.25, similarity=SimilarityConfig(**settings))
    return build_backbone(config, (3, 16, 16))


def grouped(backbone: nn.Module) -> dict[str, set[str]]:
    """Names of the parameters of each group by their last word."""
    names = {id(parameter): name.rsplit(".", 1)[-1] for name, parameter in backbone.named_parameters()}
    groups = backbone_groups(backbone)
    assert {group.name for group in groups if group.decay} == {"backbone"}
    assert {group.name for group in groups if group.estimated} <= {"backbone_shape"}
    return {group.name: {names[id(parameter)] for parameter in group.parameters} for group in groups}


def test_decay_spares_what_is_neutral_at_the_identity_and_what_is_estimated() -> None:
    of_static = grouped(network(mode="static", kernel_shape=True, across_map="attention"))
    assert of_static == {
        "backbone": {"weight", "bias", "pair"},
        "backbone_similarity": {"similarity", "gate"},
        "backbone_shape": {"scores"},
    }
    assert grouped(network(across_map="static"))["backbone_similarity"] == {"similarity"}
    assert grouped(network(mode="dynamic", hidden=4)) == {"backbone": {"weight", "bias", "first", "second"}}


def test_frozen_parameters_are_in_no_group() -> None:
    backbone = network(mode="static", kernel_shape=True)
    freeze(backbone, but_additions=True)
    expected = {"backbone": set(), "backbone_similarity": {"similarity"}, "backbone_shape": {"scores"}}
    assert grouped(backbone) == expected


@pytest.mark.parametrize(
    ("settings", "penalised"),
    [
        ({"mode": "dynamic", "hidden": 4}, "first"),
        ({"mode": "dynamic", "hidden": 4, "shared": True}, "first"),
        ({"mode": "sphere"}, "weight"),
    ],
)
def test_filters_of_spheres_are_penalised_once_each(settings: dict[str, Any], penalised: str) -> None:
    backbone = network(orthogonality=0.25, **settings)
    filters = [
        parameter
        for name, parameter in backbone.named_parameters()
        if name.endswith(penalised) and parameter.dim() == 4
    ]
    penalty = Vanilla(backbone, build_head("dot", 128, 3, 10.0)).penalty()
    assert isinstance(penalty, Tensor)
    torch.testing.assert_close(penalty, 0.25 * torch.stack([orthogonality(one) for one in filters]).sum())
