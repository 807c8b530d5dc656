"""Random changes to training images, on the device, the whole batch at once and each image on its own.

Shapes: B batch, C channels (1 or 3), H height, W width, p padding.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mntrain.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """Random changes to training images. All are off by default.

    Raises:
        ConfigError: a field is not of its type, or negative.
    """

    crop_padding: int = 0
    """Pad by this many black pixels on each side, then crop a random window of the image's size; 0 is off."""
    flip: bool = False
    """Mirror left to right with probability one half."""
    cutout: int = 0
    """Blacken a square of this many pixels around a random pixel (DeVries & Taylor 2017); 0 is off."""
    auto_augment: bool = False
    """Apply a random sub-policy of AutoAugment for CIFAR-10 (Cubuk et al. 2019), drawn for each image."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("flip", "auto_augment"):
                if not isinstance(value, bool):
                    raise ConfigError(f"augmentation.{field.name} is {value!r}; it must be true or false.")
            elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ConfigError(
                    f"augmentation.{field.name} is {value!r}; it must be a number of pixels, or 0 to switch it off."
                )


class Augmentation(nn.Module):
    """Augments a batch: crop and flip, then AutoAugment, then Cutout, in the order of the method's authors.

    All randomness comes from PyTorch's global generators, so ``torch.manual_seed`` makes a batch repeatable.

    Args:
        config: the changes.
        height: H of the images in pixels.
        width: W of the images in pixels.

    Raises:
        ConfigError: padding or Cutout is too large for images of this size.
    """

    def __init__(self, config: AugmentationConfig, height: int, width: int) -> None:
        super().__init__()
        smallest = min(height, width)
        if config.crop_padding >= smallest:
            raise ConfigError(
                f"augmentation.crop_padding is {config.crop_padding}, but the images have {height}x{width} "
                f"pixels, so a crop could miss the image altogether; use at most {smallest - 1}."
            )
        if config.cutout > 2 * smallest:
            raise ConfigError(
                f"augmentation.cutout is {config.cutout}, but the images have {height}x{width} pixels, so it "
                f"would blacken most of each; use at most {smallest}."
            )
        self.config = config
        self.height = height
        self.width = width
        self.policies = _cifar10_policies() if config.auto_augment else None

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Return augmented copies of ``images``; both are float32 [B, C, H, W] in 0..1."""
        if self.config.crop_padding or self.config.flip:
            images = self._crop_and_flip(images)
        if self.policies is not None:
            images = self._auto_augment(images, self.policies)
        if self.config.cutout:
            images = self._cut_out(images)
        return images

    def _crop_and_flip(self, images: Tensor) -> Tensor:
        """Crop and flip with one gather, since both choose rows and columns."""
        count, padding, device = len(images), self.config.crop_padding, images.device
        padded = F.pad(images, (padding,) * 4) if padding else images
        top, left = torch.randint(0, 2 * padding + 1, (2, count, 1), device=device)
        rows = torch.arange(self.height, device=device) + top  # [B, H]
        columns = torch.arange(self.width, device=device).expand(count, -1)  # [B, W]
        if self.config.flip:
            mirrored = torch.rand(count, 1, device=device) < 0.5
            columns = torch.where(mirrored, self.width - 1 - columns, columns)
        columns = columns + left
        pixels = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # [B, H, W], position in a flat image
        index = pixels.flatten(1)[:, None, :].expand(-1, images.shape[1], -1)  # [B, C, H * W]
        return padded.flatten(2).gather(2, index).view_as(images)

    def _auto_augment(self, images: Tensor, policies: nn.ModuleList) -> Tensor:
        """Apply a sub-policy drawn for each image; images with the same one are changed together."""
        drawn = torch.randint(0, len(policies), (len(images),), device=images.device)
        channels = images.shape[1]
        result = images.expand(-1, 3, -1, -1).clone()  # the colour operations are only defined on RGB
        for number in torch.unique(drawn).tolist():
            chosen = (drawn == number).nonzero().squeeze(1)
            result[chosen] = policies[number](result[chosen])
        return result[:, :channels].clamp(0.0, 1.0)

    def _cut_out(self, images: Tensor) -> Tensor:
        count, size, device = len(images), self.config.cutout, images.device
        rows = torch.randint(0, self.height, (count, 1), device=device) - size // 2
        columns = torch.randint(0, self.width, (count, 1), device=device) - size // 2
        y = torch.arange(self.height, device=device) - rows  # [B, H], row within the square
        x = torch.arange(self.width, device=device) - columns  # [B, W]
        inside = ((y >= 0) & (y < size))[:, :, None] & ((x >= 0) & (x < size))[:, None, :]
        return images.masked_fill(inside[:, None], 0.0)

    def extra_repr(self) -> str:
        return f"{self.config}"


def _cifar10_policies() -> nn.ModuleList:
    # kornia takes a second to import; runs without AutoAugment need not wait for it.
    from kornia.augmentation.auto import AutoAugment

    # Probabilities are parameters in kornia; here they are constants.
    return nn.ModuleList(AutoAugment("cifar10").children()).requires_grad_(False)
