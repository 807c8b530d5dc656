"""Record of a frozen network: what it is, and how images become its input."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from mntrain.errors import ConfigError

NetworkKind = Literal["artifact", "transformers", "timm", "onnx", "arrays"]
Layout = Literal["NCHW", "NHWC"]
_MOST_FEATURES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class PixelRule:
    """Way of stored pixels to the input of a network: scaled to 0..1, resized, normalised, laid out.

    Args:
        channels: of the stored images, 1 (grey) or 3 (RGB).
        height: of the stored images.
        width: of the stored images.
        mean: subtracted from each channel; in units of pixels scaled to 0..1.
        std: each channel is divided by it; in units of pixels scaled to 0..1.
        resize: height and width that the network takes, reached inside the graph by bilinear interpolation; None where
            stored images have its size.
        layout: NCHW or NHWC, as the network takes it.
        reverse_channels: True for a network that takes BGR.
        fit: how files of other sizes were brought to the stored size, as ``data.image_fit``; None where there is no
            rule.

    Raises:
        ConfigError: a value that cannot be.
    """

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: tuple[int, int] | None = None
    layout: Layout = "NCHW"
    reverse_channels: bool = False
    fit: str | None = None

    def __post_init__(self) -> None:
        if self.channels not in (1, 3) or min(self.height, self.width, *(self.resize or (1,))) < 1:
            raise ConfigError(
                f"A network's images are {self.channels}x{self.height}x{self.width}, resized to {self.resize}; they "
                "need 1 or 3 channels, and sides of a pixel or more."
            )
        if len(self.mean) != self.channels or len(self.std) != self.channels:
            raise ConfigError(
                f"A network's normalisation has {len(self.mean)} mean(s) and {len(self.std)} deviation(s) for "
                f"{self.channels} channel(s); give one for each."
            )
        if not all(map(math.isfinite, self.mean)) or not all(math.isfinite(value) and value > 0 for value in self.std):
            raise ConfigError(
                f"A network's normalisation has mean {self.mean} and deviation {self.std}; means must be finite, and "
                "deviations above 0."
            )
        if self.layout not in get_args(Layout):
            raise ConfigError(f"A network's layout is {self.layout!r}; choose NCHW or NHWC.")

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a stored image."""
        return (self.channels, self.height, self.width)


@dataclass(frozen=True, kw_only=True)
class NetworkRecord:
    """Record of the network that features come from.

    Args:
        kind: where the network comes from; ``arrays`` for features of an unknown one.
        name: folder, file, or name on the hub.
        sha256: digest of its weights; of the arrays for ``arrays``.
        features: d.
        pixels: way of images to its input; None for ``arrays``.
        output: of an ONNX file, the tensor that holds the features; else empty.
        settings: what else builds the same network again, as plain values.

    Raises:
        ConfigError: a value that cannot be.
    """

    kind: NetworkKind
    name: str
    sha256: str
    features: int
    pixels: PixelRule | None
    output: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in get_args(NetworkKind):
            raise ConfigError(f"A network's kind is {self.kind!r}; choose from {', '.join(get_args(NetworkKind))}.")
        if not 1 <= self.features <= _MOST_FEATURES:
            raise ConfigError(f"A network has {self.features} features; it must have 1 to {_MOST_FEATURES:,}.")
        if (self.pixels is None) != (self.kind == "arrays"):
            raise ConfigError(f"A network of kind {self.kind!r} must say how images become its input, arrays must not.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dataclasses.asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NetworkRecord:
        """Read plain values, the inverse of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: a field is missing or of another kind.
            ConfigError: a value that cannot be.
        """
        pixels = values["pixels"]
        rule = None
        if pixels is not None:
            resize = pixels.get("resize")
            rule = PixelRule(
                **dict(pixels)
                | {
                    "mean": tuple(float(value) for value in pixels["mean"]),
                    "std": tuple(float(value) for value in pixels["std"]),
                    "resize": None if resize is None else (int(resize[0]), int(resize[1])),
                }
            )
        return cls(
            kind=values["kind"],
            name=str(values["name"]),
            sha256=str(values["sha256"]),
            features=int(values["features"]),
            pixels=rule,
            output=str(values.get("output", "")),
            settings=dict(values.get("settings", {})),
        )
