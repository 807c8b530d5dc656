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
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.model import Vanilla
from mntrain.models.vanilla.regression import VanillaRegressor


@dataclass(frozen=True, kw_only=True)
class Family:
    """A registered family.

    Args:
        config: dataclass of its settings.
        build: (settings, backbone with d features, d, classes) → untrained classifier.
        build_regressor: (settings, perceptron with one output, lowest and highest training target) → untrained
            regressor; None where the family only classifies.
    """

    config: type[Any]
    build: Callable[[Any, nn.Module, int, int], Model]
    build_regressor: Callable[[Any, Mlp, tuple[float, float]], Regressor] | None = None


def _vanilla(config: VanillaConfig, backbone: nn.Module, features: int, classes: int) -> Model:
    return Vanilla(backbone, build_head(config.head, features, classes, config.scale))


def _meta_neighborhoods(config: MetaNeighborhoodsConfig, backbone: nn.Module, features: int, classes: int) -> Model:
    dictionary = Dictionary(
        entries=config.entries,
        features=features,
        classes=classes,
        key_std=config.key_std,
        value_logit_std=config.value_logit_std,
        dropout=config.entry_dropout,
    )
    head = build_head(config.head, features, classes, config.scale)
    return MetaNeighborhoods(backbone, head, dictionary, config)


def _vanilla_regressor(config: VanillaConfig, network: Mlp, target_range: tuple[float, float]) -> VanillaRegressor:
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
