"""Factories that every backbone makes its layers with: normalisation and convolution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from mntrain.layers.norm import NormFactory, batch_norm


class ConvFactory(Protocol):
    """Makes a convolution without bias."""

    def __call__(
        self, before: int, after: int, kernel: int, *, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> nn.Module:
        """Make a convolution of maps [B, before, H, W] to [B, after, H', W'] with a square kernel."""


def plain_conv(
    before: int, after: int, kernel: int, *, stride: int = 1, padding: int = 0, groups: int = 1
) -> nn.Module:
    """Build an ordinary convolution."""
    return nn.Conv2d(before, after, kernel, stride=stride, padding=padding, groups=groups, bias=False)


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Kinds of layers of a backbone.

    Args:
        norm: makes the normalisation of C channels.
        conv: makes every convolution but the first, which reads the image.
        stem: makes that first one.
        across: makes the layer that mixes the positions of a map, from its channels and its number of positions; None
            for none.
    """

    norm: NormFactory = batch_norm
    conv: ConvFactory = plain_conv
    stem: ConvFactory = plain_conv
    across: Callable[[int, int], nn.Module] | None = None


ORDINARY = Layers()
