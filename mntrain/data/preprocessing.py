"""Normalisation of pixels, in a module that is trained with and exported with the model.

Shapes: B batch, C channels, H height, W width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mntrain.data.images import ImageArray
from mntrain.errors import ConfigError

_BLOCK = 4096


@dataclass(frozen=True, kw_only=True)
class PreprocessingConfig:
    """Normalisation per channel: (pixel - mean) / std, with pixels in 0..1.

    Raises:
        ConfigError: ``mean`` and ``std`` differ in length, are empty or not finite, or a std is not above 0.
    """

    mean: tuple[float, ...]
    """Subtracted from each channel; in units of pixels scaled to 0..1."""
    std: tuple[float, ...]
    """Each channel is divided by it; in units of pixels scaled to 0..1, above 0."""

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std):
            raise ConfigError(
                f"preprocessing.mean has {len(self.mean)} value(s) and preprocessing.std {len(self.std)}; "
                "both need one value for each channel."
            )
        if not all(math.isfinite(value) for value in self.mean):
            raise ConfigError(f"preprocessing.mean is {self.mean}; every value must be finite.")
        if not all(math.isfinite(value) and value > 0 for value in self.std):
            raise ConfigError(f"preprocessing.std is {self.std}; every value must be finite and above 0.")

    @classmethod
    def identity(cls, channels: int) -> PreprocessingConfig:
        """Make the configuration that only scales to 0..1: mean 0 and std 1 for each of ``channels`` channels."""
        return cls(mean=(0.0,) * channels, std=(1.0,) * channels)

    @classmethod
    def from_images(cls, images: ImageArray) -> PreprocessingConfig:
        """Make the configuration from mean and deviation of each channel of ``images``, uint8 [N, C, H, W].

        A channel of one value gets std 1. The sums are exact integers, so the order of the images is irrelevant.
        """
        channels = images.shape[1]
        total, squares = [0] * channels, [0] * channels
        for start in range(0, len(images), _BLOCK):
            for channel in range(channels):
                block = images[start : start + _BLOCK, channel].astype("uint64")
                total[channel] += int(block.sum())
                squares[channel] += int((block * block).sum())
        pixels = images.size // channels
        mean = [value / pixels for value in total]
        std = [math.sqrt(max(0.0, squares[i] * pixels - total[i] ** 2)) / pixels for i in range(channels)]
        return cls(
            mean=tuple(value / 255.0 for value in mean),
            std=tuple(value / 255.0 if value > 0 else 1.0 for value in std),
        )


class Preprocessing(nn.Module):
    """Normalises uint8 pixels (0..255) or float32 pixels (0..1) to float32 images.

    Both inputs cost one multiply-add: the division by 255 is folded into the factor of the uint8 path.
    Buffers, float32 [1, C, 1, 1] each: ``scale`` = 1 / std, ``shift`` = -mean / std, ``byte_scale`` = scale / 255.
    The buffers follow from the configuration, so none is in the state dict: configuration and graph of an artifact
    cannot drift apart.
    """

    scale: Tensor
    shift: Tensor
    byte_scale: Tensor

    def __init__(self, config: PreprocessingConfig) -> None:
        super().__init__()
        self.config = config
        mean = torch.tensor(config.mean, dtype=torch.float64).view(1, -1, 1, 1)
        std = torch.tensor(config.std, dtype=torch.float64).view(1, -1, 1, 1)
        self.register_buffer("scale", (1.0 / std).float(), persistent=False)
        self.register_buffer("shift", (-mean / std).float(), persistent=False)
        self.register_buffer("byte_scale", (1.0 / (255.0 * std)).float(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalise ``images`` [B, C, H, W], uint8 or float32 in 0..1, to float32 [B, C, H, W].

        Raises:
            TypeError: another dtype.
        """
        if images.dtype == torch.uint8:
            return images.to(torch.float32) * self.byte_scale + self.shift
        if images.dtype == torch.float32:
            return images * self.scale + self.shift
        raise TypeError(f"Preprocessing takes uint8 or float32 images, not {images.dtype}.")

    def extra_repr(self) -> str:
        return f"mean={self.config.mean}, std={self.config.std}"
