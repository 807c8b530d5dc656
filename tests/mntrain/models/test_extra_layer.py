"""The vanilla network with extra parameters: how many there are, and what is refused."""

import pytest
import torch
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.errors import ConfigError
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Model
from mntrain.models.families import FAMILIES
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.extra_layer import units_for

CLASSES = 10


def build(extra: int, head: str = "cosine") -> Model:
    torch.manual_seed(0)
    config = VanillaConfig(extra_parameters=extra, head=head)  # type: ignore[arg-type]
    return FAMILIES["vanilla"].build(config, lambda: build_backbone(BackboneConfig(width=0.25), (3, 8, 8)), CLASSES)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("head", ["cosine", "dot"])
@pytest.mark.parametrize("extra", [700, 58_000, 290_000])
def test_about_as_many_parameters_are_added_as_were_asked_for(head: str, extra: int) -> None:
    features = 48
    added = count(build(extra, head)) - count(build(0, head))
    assert abs(added - extra) <= (features + 1 + CLASSES) / 2, "less than one more unit would make up"


def test_the_size_of_a_dictionary_is_about_one_unit_for_each_entry() -> None:
    assert units_for(5000 * (256 + 10), 256, 10) == pytest.approx(5000, rel=0.01)


def test_at_least_one_unit_is_there() -> None:
    assert units_for(1, 256, 1) == 1


def test_without_extra_parameters_the_network_has_no_further_layer() -> None:
    assert not any("layer." in name for name in build(0).state_dict())


def test_a_negative_number_of_parameters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"vanilla\.extra_parameters is -1; it must be from 0"):
        VanillaConfig(extra_parameters=-1)


def test_regression_refuses_extra_parameters() -> None:
    build_regressor = FAMILIES["vanilla"].build_regressor
    assert build_regressor is not None
    network = Mlp(3, 2, 8, 1)
    with pytest.raises(ConfigError, match=r"vanilla\.extra_parameters is 5; regression takes 0"):
        build_regressor(VanillaConfig(extra_parameters=5), network, [(0.0, 1.0)])
