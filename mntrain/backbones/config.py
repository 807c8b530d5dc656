"""Configuration and construction of feature extractors."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial

from torch import nn

from mntrain.backbones.convnet4 import ConvNet4
from mntrain.backbones.densenet import DenseNet40BC
from mntrain.backbones.flat import Identity, Perceptron
from mntrain.backbones.plain import CNN4, CNN9, CNN10, PlainNetwork
from mntrain.backbones.resnet import ResNet
from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.layers.norm import batch_norm, ifilm_norm
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.factory import similarity_layers

Shape = tuple[int, ...]
"""Shape of one input: (channels, height, width) of an image, (F,) of a row."""

_PLAIN = {"cnn4": CNN4, "cnn9": CNN9, "cnn10": CNN10}
_CONVOLUTIONAL: dict[str, Callable[..., nn.Module]] = {
    **{name: partial(PlainNetwork, plan=plan) for name, plan in _PLAIN.items()},
    "convnet4": ConvNet4,
    "densenet40bc": DenseNet40BC,
    "resnet29": partial(ResNet, blocks=3),
    "resnet56": partial(ResNet, blocks=6),
}
_SMALLEST_SIDE = {"densenet40bc": 4, **{name: plan.smallest_side for name, plan in _PLAIN.items()}}
"""Pixels that poolings without padding leave something of; the others take images of any size."""
BACKBONES = (*_CONVOLUTIONAL, "identity", "mlp")


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The feature extractor μ_θ.

    Args:
        name: registered backbone (cnn4, cnn9, cnn10, convnet4, densenet40bc, resnet29, resnet56; for rows or flattened
            images mlp, or identity, where the features are the input itself).
        width: factor on the width of every layer.
        ifilm: adapt every normalisation layer to its input (instance-wise FiLM).
        ifilm_entries: S_l, entries of each iFiLM dictionary.
        layers: hidden layers of the mlp.
        units: width of each hidden layer of the mlp.
        similarity: similarity of the convolutions, in place of the inner product.
    """

    name: str = "convnet4"
    width: float = 1.0
    ifilm: bool = False
    ifilm_entries: int = 10
    layers: int = 3
    units: int = 128
    similarity: SimilarityConfig = field(default_factory=SimilarityConfig)

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
        for name, limit in (("layers", 64), ("units", 65536)):
            if not 1 <= getattr(self, name) <= limit:
                raise ConfigError(f"backbone.{name} is {getattr(self, name)}; it must be from 1 to {limit}.")
            if self.name != "mlp" and getattr(self, name) != getattr(BackboneConfig, name):
                raise ConfigError(
                    f"backbone.{name} is {getattr(self, name)}, but backbone {self.name!r} has layers of its own; "
                    "leave it out, or choose the backbone 'mlp'."
                )
        if self.similarity.active and not self.adaptable:
            raise ConfigError(
                f"backbone.similarity is set, but backbone {self.name!r} has no convolutions; leave it out, or choose "
                f"from {sorted(_CONVOLUTIONAL)}."
            )
        if self.similarity.across_map != "none" and self.name not in _PLAIN:
            raise ConfigError(
                f"backbone.similarity.across_map is {self.similarity.across_map!r}, which stands behind poolings; "
                f"backbone {self.name!r} has none for it. Leave it out, or choose from {sorted(_PLAIN)}."
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
    layers = similarity_layers(config.similarity, norm)
    sized = shape if config.name in _PLAIN else shape[0]
    backbone = _CONVOLUTIONAL[config.name](sized, config.width, layers)
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return backbone


def feature_count(backbone: nn.Module) -> int:
    """Read d, the width of a backbone's features."""
    features = backbone.features
    assert isinstance(features, int)
    return features
