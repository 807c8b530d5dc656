"""Which feature extractor a model stands on."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from torch import nn

from mntrain.backbones.convnet4 import ConvNet4
from mntrain.backbones.densenet import DenseNet40BC
from mntrain.backbones.resnet import ResNet
from mntrain.errors import ConfigError
from mntrain.finite import require_finite
from mntrain.layers.norm import batch_norm, ifilm_norm

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "convnet4": ConvNet4,
    "densenet40bc": DenseNet40BC,
    "resnet29": partial(ResNet, blocks=3),
    "resnet56": partial(ResNet, blocks=6),
}


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The feature extractor μ_θ.

    Args:
        name: registered backbone (convnet4, densenet40bc, resnet29, resnet56).
        width: factor on the width of every layer.
        ifilm: adapt every normalisation layer to its input (instance-wise FiLM).
        ifilm_entries: S_l, entries of each iFiLM dictionary.
    """

    name: str = "convnet4"
    width: float = 1.0
    ifilm: bool = False
    ifilm_entries: int = 10

    def __post_init__(self) -> None:
        require_finite("backbone", self)
        if self.name not in BACKBONES:
            near = get_close_matches(self.name, BACKBONES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"backbone.name is {self.name!r}, which is not a backbone; choose from {sorted(BACKBONES)}.{hint}"
            )
        if not 0 < self.width <= 16:
            raise ConfigError(f"backbone.width is {self.width}; it must be above 0 and at most 16.")
        if self.ifilm_entries < 1:
            raise ConfigError(f"backbone.ifilm_entries is {self.ifilm_entries}; it must be at least 1 (10 is usual).")


def build_backbone(config: BackboneConfig, channels: int) -> nn.Module:
    """A new backbone for images with ``channels`` channels; its ``features`` attribute is d."""
    norm = ifilm_norm(config.ifilm_entries) if config.ifilm else batch_norm
    return BACKBONES[config.name](channels, config.width, norm)
