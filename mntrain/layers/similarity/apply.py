"""Convolution with a similarity: the maths that training and export share (Neural Similarity Learning, eq. 1 to 4).

Shapes: maps x [B, C, H, W], kernel w [O, C/g, k, k] with K = k² taps and g groups, answers y [B, O, H', W'].
Similarities: diagonal [K] or unconstrained [K, K] for all positions; diagonal [B, K, H', W'] or unconstrained
[B, K·K, H', W'] of each position p, whose number K·i + j weighs tap i of the kernel against tap j of the patch:

    y(p) = Σ_i Σ_j M_ij(p) w_iᵀ x(p + j)
"""

from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad


class Window(NamedTuple):
    """Places that a square kernel looks at.

    Args:
        kernel: k.
        stride: distance of two positions.
        padding: zeros around the maps.
        dilation: distance of two taps.
        groups: g; channels of one group meet filters of the same group alone.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    def positions(self, size: int) -> int:
        """Count the positions along a side of ``size`` pixels."""
        return (size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1


def folded_kernel(weight: Tensor, similarity: Tensor) -> Tensor:
    """Fold a similarity of all positions into the kernel: w M, so that the layer is an ordinary convolution.

    Args:
        weight: [O, C/g, k, k].
        similarity: [K] or [K, K].
    """
    taps = weight.flatten(2)
    folded = taps * similarity if similarity.dim() == 1 else taps @ similarity
    return folded.view_as(weight)


def taps_of(maps: Tensor, window: Window, *, last: bool = False) -> list[Tensor]:
    """Shift maps to each tap: K views of the padded maps, row by row of the kernel.

    Columns are cut first: rows are whole then, and an exported graph copies them in one piece.

    Args:
        maps: x.
        window: of the kernel.
        last: channels come last in the views: [B, H', W', C], else [B, C, H', W'].
    """
    rows, columns = (window.positions(size) for size in maps.shape[-2:])
    if window.padding:
        maps = pad(maps, (window.padding,) * 4)
    down, right = 2, 3
    if last:
        maps, down, right = maps.permute(0, 2, 3, 1), 1, 2
    steps = range(0, window.kernel * window.dilation, window.dilation)
    across = [_cut(maps, right, step, columns, window.stride) for step in steps]
    return [_cut(part, down, step, rows, window.stride) for step in steps for part in across]


def _cut(maps: Tensor, axis: int, first: int, count: int, stride: int) -> Tensor:
    """Take ``count`` places along an axis, ``stride`` apart."""
    places = slice(first, first + (count - 1) * stride + 1, stride)
    return maps[(slice(None),) * axis + (places,)]


def diagonal_product(maps: Tensor, weight: Tensor, masks: Tensor, window: Window) -> Tensor:
    """Convolve with a diagonal similarity of each position: a product of 1×1 for each masked shift, added up.

    Args:
        maps: x.
        weight: w.
        masks: [B, K, H', W'].
        window: of the kernel.
    """
    shifted = [tap * mask for tap, mask in zip(taps_of(maps, window), torch.split(masks, 1, dim=1), strict=True)]
    kernels = weight.flatten(2).unbind(2)
    products = (
        conv2d(tap, kernel[:, :, None, None], groups=window.groups)
        for tap, kernel in zip(shifted, kernels, strict=True)
    )
    return reduce(torch.add, products)


def diagonal_patches(maps: Tensor, weight: Tensor, masks: Tensor, window: Window) -> Tensor:
    """As :func:`diagonal_product`, by one product of masked patches as rows: faster on small maps.

    Args:
        maps: x.
        weight: w.
        masks: [B, K, H', W'].
        window: of the kernel.
    """
    return _rows_by_kernel(_patches(maps, window) * masks.permute(0, 2, 3, 1).unsqueeze(4), weight, window.groups)


def unconstrained_product(maps: Tensor, weight: Tensor, similarity: Tensor, window: Window) -> Tensor:
    """Convolve with an unconstrained similarity of each position: a product of K × K with every patch, then one.

    Args:
        maps: x.
        weight: w.
        similarity: [B, K·K, H', W'].
        window: of the kernel.
    """
    count = window.kernel**2
    matrices = torch.unflatten(similarity.permute(0, 2, 3, 1), 3, (count, count))
    return _rows_by_kernel(matrices @ _patches(maps, window), weight, window.groups)


def _patches(maps: Tensor, window: Window) -> Tensor:
    """Lay out the patch of each position in one piece, channels last: [B, H', W', K, C]."""
    return torch.stack(taps_of(maps, window, last=True), dim=3)


def _rows_by_kernel(patches: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Multiply patches [B, H', W', K, C] by the kernel: [B, O, H', W']."""
    kernel = by_taps(weight)
    if groups == 1:
        return (patches.flatten(3) @ kernel.mT).permute(0, 3, 1, 2)
    rows = (
        torch.unflatten(patches, 4, (groups, -1)).permute(0, 1, 2, 4, 3, 5).flatten(4).unsqueeze(4)
    )  # [B, H', W', g, 1, ...]
    answers: Tensor = rows @ torch.unflatten(kernel, 0, (groups, -1)).mT
    return answers.flatten(3).permute(0, 3, 1, 2)


def by_taps(weight: Tensor) -> Tensor:
    """Arrange a kernel [O, C/g, k, k] for patches laid out tap by tap: [O, K·C/g]."""
    return weight.flatten(2).transpose(1, 2).flatten(1)
