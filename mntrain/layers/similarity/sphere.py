"""Hyperspherical convolution: answers by the angle between filter and patch (Liu et al., NIPS 2017).

Shapes: maps x [B, C, H, W], kernel w [O, C/g, k, k], answers [B, O, H', W'].
"""

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import conv2d, normalize

from mntrain.layers.full_precision import full_precision, widened
from mntrain.layers.similarity.apply import Window

Measure = Literal["cosine", "linear", "sigmoid"]
Normalise = Literal["input", "both"]
_EPSILON = 1e-4
"""Added to sums of squares, as in the authors' code."""
_STEEPNESS = 0.3
_EDGE = 1 - 1e-6
"""Largest cosine that an angle is taken of: the slope of the arc cosine has no bound at 1."""


def patch_scales(maps: Tensor, window: Window) -> Tensor:
    """Compute 1 / √(Σ x² + 1e-4) of every patch, by group: [B, g, H', W']."""
    with full_precision(maps):  # eight bits of mantissa are too few for a sum of squares
        wide = widened(maps)
        # A product, not a power: ONNX Runtime takes three times as long for the latter.
        squares = torch.unflatten(wide * wide, 1, (window.groups, -1)).sum(dim=2)
        ones = squares.new_ones(window.groups, 1, window.kernel, window.kernel)
        sums = conv2d(squares, ones, None, window.stride, window.padding, window.dilation, window.groups)
        return torch.rsqrt(sums + _EPSILON)


def unit_filters(weight: Tensor) -> Tensor:
    """Divide filters w by √(Σ w² + 1e-4) each."""
    return weight / torch.sqrt(weight.flatten(1).square().sum(dim=1) + _EPSILON)[:, None, None, None]


def sphere_conv(maps: Tensor, weight: Tensor, window: Window, normalise: Normalise, measure: Measure) -> Tensor:
    """Convolve and divide by the norms of the patches, and of the filters on request.

    Args:
        maps: x.
        weight: w.
        window: of the kernel.
        normalise: input divides by the norms of patches; both by those of filters, too.
        measure: function of the cosine that answers; linear and sigmoid take both norms.
    """
    if normalise == "both":
        weight = unit_filters(weight)
    products = conv2d(maps, weight, None, window.stride, window.padding, window.dilation, window.groups)
    return by_measure(products * _scales_of_filters(maps, window, len(weight)).to(products.dtype), measure)


def _scales_of_filters(maps: Tensor, window: Window, filters: int) -> Tensor:
    """Scales of the patches that each of O filters looks at: [B, O or 1, H', W']."""
    scales = patch_scales(maps, window)
    return scales if window.groups == 1 else scales.repeat_interleave(filters // window.groups, dim=1)


def by_measure(cosines: Tensor, measure: Measure) -> Tensor:
    """Apply ``measure`` to cosines in −1..1: itself, 1 − 2θ/π, or a sigmoid of the angle θ, all from −1 to 1."""
    if measure == "cosine":
        return cosines
    angles = torch.acos(cosines.clamp(-_EDGE, _EDGE))
    if measure == "linear":
        return 1 - angles * (2 / math.pi)
    # (1 + e^a) / (1 − e^a) · (1 − e^b) / (1 + e^b) with a = −π/2k and b = θ/k − π/2k, written without overflow.
    return torch.tanh((math.pi / 2 - angles) / (2 * _STEEPNESS)) / math.tanh(math.pi / (4 * _STEEPNESS))


def orthogonality(weight: Tensor) -> Tensor:
    """Compute ‖ŵ ŵᵀ − I‖² [] of filters ŵ [O, C·K] at unit length."""
    filters = normalize(weight.flatten(1), dim=1)
    products = filters @ filters.mT
    return (products - torch.eye(len(products), dtype=products.dtype, device=products.device)).square().sum()
