"""Which feature extractor a model stands on."""

from dataclasses import dataclass
from difflib import get_close_matches

from torch import nn

from mntrain.backbones.convnet4 import ConvNet4
from mntrain.errors import ConfigError
from mntrain.finite import require_finite

BACKBONES: dict[str, type[ConvNet4]] = {"convnet4": ConvNet4}


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The feature extractor μ_θ.

    Args:
        name: registered backbone (convnet4).
        width: factor on the width of every layer.
    """

    name: str = "convnet4"
    width: float = 1.0

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


def build_backbone(config: BackboneConfig, channels: int) -> nn.Module:
    """A new backbone for images with ``channels`` channels; its ``features`` attribute is d."""
    return BACKBONES[config.name](channels, config.width)
