"""The model families there are, by name: how each is configured and built.

A new family is one folder beside this file and one entry in :data:`FAMILIES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from torch import nn

from mntrain.errors import ConfigError
from mntrain.layers.head import build_head
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Model, Regressor
from mntrain.models.maxl.config import MaxlConfig
from mntrain.models.maxl.model import Maxl
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.extra_layer import WithExtraLayer, units_for
from mntrain.models.vanilla.model import Vanilla
from mntrain.models.vanilla.regression import VanillaRegressor

MakeBackbone = Callable[[], nn.Module]
"""Makes a new feature extractor; its attribute ``features`` is d."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A registered family.

    Args:
        config: dataclass of its settings.
        build: (settings, what makes a new backbone, classes) → untrained classifier.
        build_regressor: (settings, perceptron with one output, lowest and highest training target) → untrained
            regressor; None where the family only classifies.
    """

    config: type[Any]
    build: Callable[[Any, MakeBackbone, int], Model]
    build_regressor: Callable[[Any, Mlp, tuple[float, float]], Regressor] | None = None


def _vanilla(config: VanillaConfig, make_backbone: MakeBackbone, classes: int) -> Vanilla:
    backbone = make_backbone()
    if config.extra_parameters:
        features = _features(backbone)
        backbone = WithExtraLayer(backbone, features, units_for(config.extra_parameters, features, classes))
    return Vanilla(backbone, build_head(config.head, _features(backbone), classes, config.scale))


def _meta_neighborhoods(
    config: MetaNeighborhoodsConfig, make_backbone: MakeBackbone, classes: int
) -> MetaNeighborhoods:
    backbone = make_backbone()
    features = _features(backbone)
    dictionary = Dictionary(config, features=features, classes=classes)
    head = build_head(config.head, features, classes, config.scale)
    auxiliary = build_head(config.head, features, classes, config.scale) if config.auxiliary else None
    return MetaNeighborhoods(backbone, (head, auxiliary), dictionary, config)


def _maxl(config: MaxlConfig, make_backbone: MakeBackbone, classes: int) -> Maxl:
    backbones = make_backbone(), make_backbone()
    features, auxiliary = _features(backbones[0]), classes * config.hierarchy
    heads = tuple(build_head(config.head, features, width, config.scale) for width in (classes, auxiliary, auxiliary))
    return Maxl(backbones, (heads[0], heads[1], heads[2]), config)


def _features(backbone: nn.Module) -> int:
    features = backbone.features
    assert isinstance(features, int)
    return features


def _vanilla_regressor(config: VanillaConfig, network: Mlp, target_range: tuple[float, float]) -> VanillaRegressor:
    if config.extra_parameters:
        raise ConfigError(
            f"vanilla.extra_parameters is {config.extra_parameters}; regression takes 0, since the size of its "
            "perceptron is a setting of its own."
        )
    for field in ("head", "scale"):
        if getattr(config, field) != getattr(VanillaConfig, field):
            raise ConfigError(
                f"vanilla.{field} is {getattr(config, field)!r}; regression has no classes that it could act on, so "
                "leave it out."
            )
    return VanillaRegressor(network)


def _meta_neighborhoods_regressor(
    config: MetaNeighborhoodsConfig, network: Mlp, target_range: tuple[float, float]
) -> MetaNeighborhoodsRegressor:
    return MetaNeighborhoodsRegressor(network, config, target_range)


FAMILIES: dict[str, Family] = {
    "vanilla": Family(config=VanillaConfig, build=_vanilla, build_regressor=_vanilla_regressor),
    "meta_neighborhoods": Family(
        config=MetaNeighborhoodsConfig, build=_meta_neighborhoods, build_regressor=_meta_neighborhoods_regressor
    ),
    "maxl": Family(config=MaxlConfig, build=_maxl),
}


def family_named(name: str) -> Family:
    """The family called ``name``.

    Raises:
        ConfigError: there is none; the message lists those there are.
    """
    if name not in FAMILIES:
        near = get_close_matches(name, FAMILIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"family is {name!r}, which does not exist; choose from {sorted(FAMILIES)}.{hint}")
    return FAMILIES[name]
