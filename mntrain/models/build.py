"""Build untrained models from an experiment's configuration."""

from functools import partial
from typing import Any, Protocol

from mntrain.backbones.config import BackboneConfig, Shape, build_backbone
from mntrain.errors import ConfigError
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Model, Regressor, TargetRanges
from mntrain.models.families import FAMILIES, family_named


class ModelConfig(Protocol):
    """The part of an experiment's configuration that decides its model."""

    @property
    def family(self) -> str:
        """Name of the model family."""

    @property
    def model(self) -> Any:
        """Settings of the family."""

    @property
    def backbone(self) -> BackboneConfig:
        """Feature extractor."""


def build_model(config: ModelConfig, shape: Shape, classes: int) -> Model:
    """Build a classifier of the configured family on the configured backbone.

    Args:
        config: family, its settings and the backbone.
        shape: of one input.
        classes: C.

    Raises:
        ConfigError: the backbone does not take inputs of this shape.
    """
    return family_named(config.family).build(config.model, partial(build_backbone, config.backbone, shape), classes)


def build_regressor(config: ModelConfig, features: int, target_ranges: TargetRanges) -> Regressor:
    """Build a regressor of the configured family for rows of F ``features``.

    Args:
        config: family, its settings and the perceptron.
        features: F.
        target_ranges: lowest and highest standardised training value of each target; as many values are estimated.

    Raises:
        ConfigError: the family only classifies, or the backbone is no perceptron.
    """
    build = family_named(config.family).build_regressor
    if build is None:
        able = [name for name, family in FAMILIES.items() if family.build_regressor is not None]
        raise ConfigError(
            f"family is {config.family!r}, which only tells classes apart, but the targets are values; choose from "
            f"{able}, or set data.target to class."
        )
    if config.backbone.name != "mlp":
        raise ConfigError(
            f"backbone.name is {config.backbone.name!r}, but the targets are values, which a perceptron estimates; set "
            "backbone.name to mlp, or data.target to class."
        )
    network = Mlp(features, config.backbone.layers, config.backbone.hidden_units, len(target_ranges))
    return build(config.model, network, target_ranges)
