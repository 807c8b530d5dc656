"""Sizes and colours of images as found, and a sentence on what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypedDict

from mntrain.data.config import DataConfig, ImageFit
from mntrain.data.images import ImageArray

_FITS: Mapping[ImageFit, str] = MappingProxyType(
    {
        "stretch": "{count} stretched to {size}",
        "crop": "{count} scaled and cropped to {size}",
        "pad": "{count} scaled and padded to {size}",
    }
)


class PixelFields(TypedDict):
    """Fields of an account that say what became of the pixels."""

    sizes: dict[str, int]
    colors: dict[str, int]
    pixels: str


@dataclass(frozen=True, kw_only=True)
class PixelCensus:
    """Counts of images by size (width, height) and by Pillow's colour mode, as they were found."""

    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)

    def add(self, width: int, height: int, mode: str, images: int = 1) -> None:
        """Count images of one kind."""
        self.sizes[width, height] += images
        self.modes[mode] += images

    def account(self, loaded: ImageArray, config: DataConfig) -> PixelFields:
        """Return the fields ``sizes``, ``colors`` and ``pixels`` of an account.

        Args:
            loaded: images of one split as they were loaded, uint8 [N, C, H, W].
            config: says how they were to be changed.
        """
        return {
            "sizes": {f"{width}x{height}": count for (width, height), count in self.sizes.most_common()},
            "colors": dict(self.modes.most_common()),
            "pixels": self._words(loaded, config),
        }

    def _words(self, loaded: ImageArray, config: DataConfig) -> str:
        channels, height, width = loaded.shape[1:]
        other = sum(count for size, count in self.sizes.items() if size != (width, height))
        size = f"{width}x{height}"
        resized = f"{_FITS[config.image_fit].format(count=other, size=size)}" if other else f"{size} as found"
        color = "grey, 1 channel" if channels == 1 else "RGB, 3 channels"
        return f"{resized}; {color}"
