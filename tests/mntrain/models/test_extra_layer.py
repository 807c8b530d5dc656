"""The vanilla network with extra parameters: how many there are, and what is refused."""

import pytest
import torch
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.errors import ConfigError
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Model
from mntrain.models.build import build_model
from mntrain.models.families import FAMILIES
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.extra_layer import parameters_of, units_for

CLASSES = 10


def build(extra: int, head: str = "cosine") -> Model:
    return build_from(VanillaConfig(extra_parameters=extra, head=head))  # type: ignore[arg-type]


def build_from(config: VanillaConfig) -> Model:
    torch.manual_seed(0)
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


def test_extra_entries_add_as_many_parameters_as_a_dictionary_of_that_size() -> None:
    words = ["--backbone.width", "0.25", "--meta_neighborhoods.entries", "70"]
    vanilla = load_experiment("digits", [*words, "--family", "vanilla", "--vanilla.extra_entries", "dictionary"])
    assert vanilla.model == VanillaConfig(extra_entries=70)
    assert ExperimentConfig.from_dict(vanilla.to_dict()) == vanilla
    models = [build_model(config, (3, 8, 8), CLASSES) for config in (vanilla, load_experiment("digits", words))]
    assert count(models[0]) == pytest.approx(count(models[1]), abs=(48 + 1 + CLASSES) / 2)
    assert count(build_from(VanillaConfig(extra_entries=70))) == count(build(70 * (48 + CLASSES) + 1))


def test_sizes_of_the_extra_layer_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"vanilla\.extra_entries is -1; it must be dictionary, or from 0"):
        VanillaConfig(extra_entries=-1)
    with pytest.raises(ConfigError, match="which both size the extra layer"):
        VanillaConfig(extra_entries=5, extra_parameters=5)
    with pytest.raises(ConfigError, match="which only a recipe can count"):
        build_from(VanillaConfig(extra_entries="dictionary"))


def test_at_least_one_unit_is_there() -> None:
    assert units_for(1, 256, 1) == 1


@pytest.mark.parametrize(("units", "features", "classes"), [(27, 16, 6), (1, 256, 1), (60, 64, 10)])
def test_the_parameters_of_a_layer_give_back_its_units(units: int, features: int, classes: int) -> None:
    parameters = parameters_of(units, features, classes)
    layer, gained = units * features + units, classes * (units - features)
    assert parameters == layer + gained
    assert units_for(parameters, features, classes) == units


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
    with pytest.raises(ConfigError, match=r"vanilla\.extra_entries is 5; regression takes 0"):
        build_regressor(VanillaConfig(extra_entries=5), network, [(0.0, 1.0)])
