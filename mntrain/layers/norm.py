"""Batch normalisation as every backbone here uses it, with iFiLM behind it where it is asked for.

Shapes: maps [B, C, H, W].
"""

from collections.abc import Callable

from torch import nn

from mntrain.layers.ifilm import IFiLM

NormFactory = Callable[[int], nn.Module]
_EPSILON = 1e-3


def batch_norm(channels: int) -> nn.Module:
    """Batch normalisation of C channels, with the authors' epsilon."""
    return nn.BatchNorm2d(channels, eps=_EPSILON)


def ifilm_norm(entries: int) -> NormFactory:
    """A factory of batch normalisations followed by iFiLM with S_l ``entries``; the normalisation keeps its affine."""

    def make(channels: int) -> nn.Module:
        return nn.Sequential(batch_norm(channels), IFiLM(channels, entries))

    return make
