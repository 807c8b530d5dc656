"""Which feature extractor a model stands on."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial

from torch import nn

from mntrain.backbones.convnet4 import ConvNet4
from mntrain.backbones.densenet import DenseNet40BC
from mntrain.backbones.identity import Identity
from mntrain.backbones.mlp import MlpFeatures
from mntrain.backbones.resnet import ResNet
from mntrain.errors import ConfigError
from mntrain.finite import require_finite
from mntrain.layers.mlp import Mlp
from mntrain.layers.norm import batch_norm, ifilm_norm

CONVOLUTIONAL: dict[str, Callable[..., nn.Module]] = {
    "convnet4": ConvNet4,
    "densenet40bc": DenseNet40BC,
    "resnet29": partial(ResNet, blocks=3),
    "resnet56": partial(ResNet, blocks=6),
}
BACKBONES: tuple[str, ...] = (*CONVOLUTIONAL, "identity", "mlp")
# Fields that only some backbones have a use for.
_FIELDS = {
    "width": (*CONVOLUTIONAL, "mlp"),
    "ifilm": tuple(CONVOLUTIONAL),
    "ifilm_entries": tuple(CONVOLUTIONAL),
    "layers": ("mlp",),
    "units": ("mlp",),
}


@dataclass(frozen=True, kw_only=True)
class BackboneConfig:
    """The feature extractor μ_θ; in regression, the network itself.

    Args:
        name: registered backbone (convnet4, densenet40bc, resnet29, resnet56; mlp; identity, the input itself).
        width: factor on the width of every layer.
        ifilm: adapt every normalisation layer to its input (instance-wise FiLM); convolutional backbones only.
        ifilm_entries: S_l, entries of each iFiLM dictionary.
        layers: hidden layers (mlp only).
        units: width of each hidden layer (mlp only).
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
            near = get_close_matches(self.name, BACKBONES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"backbone.name is {self.name!r}, which is not a backbone; choose from {sorted(BACKBONES)}.{hint}"
            )
        if not 0 < self.width <= 16:
            raise ConfigError(f"backbone.width is {self.width}; it must be above 0 and at most 16.")
        if self.ifilm_entries < 1:
            raise ConfigError(f"backbone.ifilm_entries is {self.ifilm_entries}; it must be at least 1 (10 is usual).")
        if not 1 <= self.layers <= 100:
            raise ConfigError(f"backbone.layers is {self.layers}; it must be from 1 to 100 (2 to 5 are usual).")
        if not 1 <= self.units <= 65536:
            raise ConfigError(f"backbone.units is {self.units}; it must be from 1 to 65536 (32 to 256 are usual).")
        for field in fields(self):
            takers = _FIELDS.get(field.name, BACKBONES)
            if self.name not in takers and getattr(self, field.name) != field.default:
                why = ", which has no normalisation layers to adapt" if field.name.startswith("ifilm") else ""
                raise ConfigError(
                    f"backbone.{field.name} is {getattr(self, field.name)!r}, but backbone.name is {self.name!r}{why}; "
                    f"leave it out, or choose {', '.join(takers)}."
                )

    @property
    def mlp_units(self) -> int:
        """Units of every hidden layer of the mlp, ``width`` taken into account."""
        return max(1, round(self.units * self.width))


def build_backbone(config: BackboneConfig, shape: tuple[int, ...]) -> nn.Module:
    """A new backbone; its ``features`` attribute is d.

    Args:
        config: which one.
        shape: of one input: (channels, H, W) of images, (F,) of rows.

    Raises:
        ConfigError: a convolutional backbone for rows.
    """
    if config.name == "identity":
        return Identity(shape)
    if config.name == "mlp":
        return MlpFeatures(shape, config.layers, config.mlp_units)
    if len(shape) != 3:
        raise ConfigError(
            f"backbone.name is {config.name!r}, which takes images, but the data are rows of {shape[0]} number(s); "
            "choose mlp or identity."
        )
    norm = ifilm_norm(config.ifilm_entries) if config.ifilm else batch_norm
    return CONVOLUTIONAL[config.name](shape[0], config.width, norm)


def build_network(config: BackboneConfig, features: int) -> Mlp:
    """A new perceptron with one output, for regression on rows of ``features`` numbers; ``identity`` is linear.

    Raises:
        ConfigError: a convolutional backbone.
    """
    if config.name not in ("mlp", "identity"):
        raise ConfigError(
            f"backbone.name is {config.name!r}, which takes images; regression on rows takes mlp, or identity for a "
            "linear model."
        )
    return Mlp(features, config.layers if config.name == "mlp" else 0, config.mlp_units, 1)
