"""Configuration and construction of feature extractors."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from torch import nn

from mntrain.backbones.convnet4 import ConvNet4
from mntrain.backbones.densenet import DenseNet40BC
from mntrain.backbones.flat import Identity, Perceptron
from mntrain.backbones.resnet import ResNet
from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.layers.norm import batch_norm, ifilm_norm

Shape = tuple[int, ...]
"""Shape of one input: (channels, height, width) of an image, (F,) of a row."""

_CONVOLUTIONAL: dict[str, Callable[..., nn.Module]] = {
    "convnet4": ConvNet4,
    "densenet40bc": DenseNet40BC,
    "resnet29": partial(ResNet, blocks=3),
    "resnet56": partial(ResNet, blocks=6),
}
_SMALLEST_SIDE = {"densenet40bc": 4}
"""Pixels that poolings without padding leave something of; the others take images of any size."""
BACKBONES = (*_CONVOLUTIONAL, "identity", "mlp")


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The feature extractor μ_θ.

    Args:
        name: registered backbone (convnet4, densenet40bc, resnet29, resnet56; for rows or flattened images mlp, or
            identity, where the features are the input itself).
        width: factor on the width of every layer.
        ifilm: adapt every normalisation layer to its input (instance-wise FiLM).
        ifilm_entries: S_l, entries of each iFiLM dictionary.
        layers: hidden layers of the mlp.
        units: width of each hidden layer of the mlp.
    """

    name: str = "convnet4"
    width: float = 1.0
    ifilm: bool = False
    ifilm_entries: int = 10
    layers: int = 3
    units: int = 128

    def __post_init__(self) -> None:
        require_finite("backbone", self)
        if self.name not in BACKBONES:
            matches = get_close_matches(self.name, BACKBONES, n=1)
            hint = f" Did you mean {matches[0]!r}?" if matches else ""
            raise ConfigError(
                f"backbone.name is {self.name!r}, which is not a backbone; choose from {sorted(BACKBONES)}.{hint}"
            )
        if not 0 < self.width <= 16:
            raise ConfigError(f"backbone.width is {self.width}; it must be above 0 and at most 16.")
        if self.ifilm_entries < 1:
            raise ConfigError(f"backbone.ifilm_entries is {self.ifilm_entries}; it must be at least 1 (10 is usual).")
        if self.ifilm and not self.adaptable:
            raise ConfigError(
                f"backbone.ifilm is true, but backbone {self.name!r} has no normalisation layer to adapt; leave it "
                f"out, or choose from {sorted(_CONVOLUTIONAL)}."
            )
        for field, limit in (("layers", 64), ("units", 65536)):
            if not 1 <= getattr(self, field) <= limit:
                raise ConfigError(f"backbone.{field} is {getattr(self, field)}; it must be from 1 to {limit}.")
            if self.name != "mlp" and getattr(self, field) != getattr(BackboneConfig, field):
                raise ConfigError(
                    f"backbone.{field} is {getattr(self, field)}, but backbone {self.name!r} has layers of its own; "
                    "leave it out, or choose the backbone 'mlp'."
                )

    @property
    def adaptable(self) -> bool:
        """True for a backbone with normalisation layers, which iFiLM adapts."""
        return self.name in _CONVOLUTIONAL

    @property
    def hidden_units(self) -> int:
        """Width of each hidden layer of the mlp, the factor counted in."""
        return max(1, round(self.units * self.width))


def build_backbone(config: BackboneConfig, shape: Shape) -> nn.Module:
    """Build a backbone for inputs of ``shape``; its ``features`` attribute is d.

    Convolutions start with He-normal weights.

    Raises:
        ConfigError: a convolutional backbone for rows, or for images that are too small for it.
    """
    if config.name == "mlp":
        return Perceptron(math.prod(shape), config.layers, config.hidden_units)
    if config.name == "identity":
        return Identity(math.prod(shape))
    if len(shape) != 3:
        raise ConfigError(
            f"backbone.name is {config.name!r}, which takes images, but the data holds rows of {shape[0]} column(s); "
            "set backbone.name to mlp or identity."
        )
    smallest = _SMALLEST_SIDE.get(config.name, 1)
    if min(shape[1:]) < smallest:
        raise ConfigError(
            f"backbone.name is {config.name!r}, which takes images of at least {smallest}x{smallest} pixels, but these "
            f"have {shape[2]}x{shape[1]}; set data.image_size, or choose another backbone."
        )
    norm = ifilm_norm(config.ifilm_entries) if config.ifilm else batch_norm
    backbone = _CONVOLUTIONAL[config.name](shape[0], config.width, norm)
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return backbone


def feature_count(backbone: nn.Module) -> int:
    """Read d, the width of a backbone's features."""
    features = backbone.features
    assert isinstance(features, int)
    return features
