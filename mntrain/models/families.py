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
from mntrain.models.base import Model
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.model import Vanilla


@dataclass(frozen=True, kw_only=True)
class Family:
    """A registered family.

    Args:
        config: dataclass of its settings.
        build: (settings, backbone with d features, d, classes) → untrained model.
    """

    config: type[Any]
    build: Callable[[Any, nn.Module, int, int], Model]


def _vanilla(config: VanillaConfig, backbone: nn.Module, features: int, classes: int) -> Model:
    return Vanilla(backbone, build_head(config.head, features, classes, config.scale))


def _meta_neighborhoods(config: MetaNeighborhoodsConfig, backbone: nn.Module, features: int, classes: int) -> Model:
    dictionary = Dictionary(
        entries=config.entries,
        features=features,
        classes=classes,
        key_std=config.key_std,
        value_logit_std=config.value_logit_std,
        dropout=config.dropout,
        dropout_mode=config.dropout_mode,
    )
    head = build_head(config.head, features, classes, config.scale)
    return MetaNeighborhoods(backbone, head, dictionary, config)


FAMILIES: dict[str, Family] = {
    "vanilla": Family(config=VanillaConfig, build=_vanilla),
    "meta_neighborhoods": Family(config=MetaNeighborhoodsConfig, build=_meta_neighborhoods),
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
