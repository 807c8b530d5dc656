"""Choice of a frozen network, and what a user says about it that its files do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from mntrain.errors import ConfigError
from mntrain.networks.record import Layout

Pooling = Literal["auto", "pooled", "cls", "mean"]
ChannelOrder = Literal["RGB", "BGR"]
Notify = Callable[[str], None]
"""Takes a sentence for the person who opens a network."""

_LARGEST_SCALE = 1e6


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Network to open.

    Args:
        source: artifact folder, ``hf:NAME``, ``timm:NAME`` or an ONNX file.
        output: of an ONNX file, the tensor that holds the features; None finds the input of the last linear layer.
        mean: of an ONNX file, subtracted from its pixels: one value for each channel, in the order of the network, in
            units of ``scale``.
        std: of an ONNX file, its pixels are divided by it after that; as ``mean``.
        scale: of an ONNX file, largest value of a pixel before ``mean`` is subtracted, such as 1 or 255.
        layout: of an ONNX file, NCHW or NHWC; None reads it from the shape of the input.
        channel_order: of an ONNX file, RGB or BGR.
        pooling: features of a network that gives tokens or maps: ``pooled`` for its own pooled output, ``cls`` for the
            first token, ``mean`` over patches or places; ``auto`` takes the first of pooled and cls that there is.

    Raises:
        ConfigError: a value that cannot be.
    """

    source: str
    output: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: float = 1.0
    layout: Layout | None = None
    channel_order: ChannelOrder = "RGB"
    pooling: Pooling = "auto"

    def __post_init__(self) -> None:
        if not self.source.strip():
            raise ConfigError("The name of a network is empty; give an artifact folder, hf:NAME or a file.onnx.")
        if not (math.isfinite(self.scale) and 0 < self.scale <= _LARGEST_SCALE):
            raise ConfigError(f"--scale is {self.scale}; it must be above 0 (1 or 255 are usual).")
        if self.mean is not None and not all(map(math.isfinite, self.mean)):
            raise ConfigError(f"--mean is {self.mean}; every value must be finite.")
        if self.std is not None and not all(math.isfinite(value) and value > 0 for value in self.std):
            raise ConfigError(f"--std is {self.std}; every value must be finite and above 0.")
        for name, value, choices in (
            ("layout", self.layout, (None, *get_args(Layout))),
            ("channel-order", self.channel_order, get_args(ChannelOrder)),
            ("pooling", self.pooling, get_args(Pooling)),
        ):
            if value not in choices:
                words = ", ".join(str(choice) for choice in choices if choice is not None)
                raise ConfigError(f"--{name} is {value!r}; choose from {words}.")

    def refuse_onnx_options(self) -> None:
        """Refuse what acts on ONNX files alone, for a network that says it itself.

        Raises:
            ConfigError: such an option is given.
        """
        defaults = NetworkOptions(source=self.source)
        for name in ("output", "mean", "std", "scale", "layout", "channel_order"):
            if getattr(self, name) != getattr(defaults, name):
                raise ConfigError(
                    f"--{name.replace('_', '-')} is given, but {self.source} says itself how it takes pixels and where "
                    "its features are; leave it out. It is for ONNX files."
                )
