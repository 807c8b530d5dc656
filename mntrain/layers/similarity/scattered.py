"""Convolutions whose products are made where the input is, and added up where the answers are.

A product with all taps of a kernel is made at each position of the input and then added to the answers that it belongs
to (``Col2Im`` in ONNX). The input is neither shifted nor copied, so little passes memory besides the products. On a CPU
that is faster than masked shifts, and than a convolution with few filters.

Shapes: maps x [B, C, H, W], kernel w [O, C, k, k] with K = k² taps, answers y [B, O, H', W'], masks [B, K, H', W'].
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d, fold

from mntrain.layers.similarity.apply import Window


def scatters(window: Window) -> bool:
    """Tell whether a convolution has this form: neither stride nor groups, and no answer beyond what taps reach."""
    return window.stride == 1 and window.groups == 1 and _reach(window) >= 0


def scattered_conv(maps: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Convolve, without a bias.

    Args:
        maps: x.
        weight: w.
        window: of the kernel; see :func:`scatters`.
    """
    return _added(_by_taps(weight) @ maps.flatten(2), maps, window)


def scattered_masks(masks: Tensor, window: Window, bias: Tensor | None = None) -> Tensor:
    """Move the mask of each tap from the answers to the input that the tap reads there: [B, 1, K, H·W].

    What no answer reads gets 0, or the bias: its products are added to no answer.

    Args:
        masks: of the answers, taps in reverse.
        window: of the kernel.
        bias: [K] that is added to the masks, in reverse.
    """
    taps = window.kernel**2
    shifts = torch.eye(taps, dtype=masks.dtype, device=masks.device).view(taps, 1, window.kernel, window.kernel)
    moved = conv2d(masks, shifts, bias, padding=_reach(window), dilation=window.dilation, groups=taps)
    return moved.flatten(2).unsqueeze(1)


def scattered_product(maps: Tensor, weight: Tensor, masks: Tensor, window: Window, parts: int = 1) -> Tensor:
    """Convolve with a diagonal similarity of each position; as ``apply.diagonal_product`` otherwise.

    Args:
        maps: x.
        weight: w.
        masks: of :func:`scattered_masks`.
        window: of the kernel; see :func:`scatters`.
        parts: filters are taken in so many parts, so that the products of one stay in a cache.
    """
    rows, answers = maps.flatten(2), []
    for kernel in weight.chunk(parts):
        products = torch.unflatten(_by_taps(kernel) @ rows, 1, (len(kernel), -1)) * masks
        answers.append(_added(products.flatten(1, 2), maps, window))
    return torch.cat(answers, dim=1) if len(answers) > 1 else answers[0]


def _reach(window: Window) -> int:
    """Positions of the input beyond the first answer that still belong to it."""
    return window.dilation * (window.kernel - 1) - window.padding


def _by_taps(weight: Tensor) -> Tensor:
    """Arrange a kernel filter by filter, taps in reverse: [O·K, C]."""
    return weight.flatten(2).flip(2).transpose(1, 2).flatten(0, 1)


def _added(products: Tensor, maps: Tensor, window: Window) -> Tensor:
    """Add products [B, O·K, H·W] up where they belong: [B, O, H', W']."""
    height, width = (window.positions(size) for size in maps.shape[-2:])
    return fold(products, (height, width), window.kernel, window.dilation, _reach(window))
