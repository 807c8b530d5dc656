"""Static forms of convolutions with neural similarity.

Shapes: maps x [B, C, H, W], kernel w [O, C/g, k, k], K = k² taps, similarities [B, n, H', W'], answers [B, O, H', W'].

A static similarity is folded into the kernel: the layer is an ordinary convolution. Of a dynamic one the normalisations
of the predictor are folded into its convolutions; what is left is convolved, masked and joined for every input.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

from mnexport.errors import FormError
from mntrain.layers.similarity.apply import (
    Window,
    diagonal_patches,
    diagonal_product,
    unconstrained_product,
)
from mntrain.layers.similarity.conv import SharedPredictor, SimilarityConv, SphereConv
from mntrain.layers.similarity.predictor import SimilarityPredictor, identity_numbers
from mntrain.layers.similarity.sphere import sphere_conv, unit_filters

_SMALL_SIDE = 8
"""Longest side of maps whose patches are multiplied as rows; masked shifts of larger maps are multiplied one by one."""
_PRODUCTS = {"matrices": unconstrained_product, "patches": diagonal_patches, "shifts": diagonal_product}


def ordinary_conv(layer: SimilarityConv) -> nn.Conv2d:
    """Fold a static similarity and the shape of the kernel into an ordinary convolution.

    Raises:
        FormError: no tap of the kernel is left.
    """
    folded = nn.Conv2d(layer.in_channels, layer.out_channels, *layer.window[:4], layer.window.groups, bias=False)
    folded.weight = nn.Parameter(shaped(layer, layer.shaped_kernel()).detach())
    return folded


def shaped(layer: SimilarityConv, kernel: Tensor) -> Tensor:
    """Return a kernel, after a look at its shape.

    Raises:
        FormError: no tap of it is left.
    """
    if layer.shape is not None and not layer.shape().any():
        raise FormError(
            "A layer's learned kernel shape D is all zero, so that the layer answers nothing; train with a lower "
            "backbone.similarity.shape_threshold or shape_penalty."
        )
    return kernel


class FoldedPredictor(nn.Module):
    """SimilarityPredictor in evaluation: its normalisations are folded into its convolutions, the identity into a bias.

    Args:
        predictor: of one layer, or of several.
        window: of the layer.
        adaptation: kernel [h, C, 1, 1] in front of a shared predictor; None for none.
    """

    def __init__(self, predictor: SimilarityPredictor, window: Window, adaptation: Tensor | None) -> None:
        super().__init__()
        config = predictor.config
        self.window, self.padding = window._replace(groups=1), config.second_kernel // 2
        self.sphere, self.measure = config.predictor == "sphere", config.measure
        first, second = predictor.first.detach(), predictor.second.detach()
        if self.sphere and config.normalise == "both":
            first = unit_filters(first)
        scale, shift = _affine(predictor.norms[0]) if predictor.diagonal else (None, None)
        self.affine: Tensor | None
        # A function of the angle stands between the first convolution and its normalisation; a cosine is linear.
        self.register_buffer("affine", None)
        if scale is not None and self.measure != "cosine":
            self.register_buffer("affine", scale[:, None, None])
        elif scale is not None:
            first = first * scale[:, None, None, None]
        self.register_buffer("first", first)
        self.register_buffer("first_bias", shift)
        taps = window.kernel**2
        bias = torch.ones_like(second[:, 0, 0, 0]) if predictor.diagonal else identity_numbers(second, taps)
        bias = bias * float(config.residual)
        if predictor.diagonal:
            scale, shift = _affine(predictor.norms[1])
            second, bias = second * scale[:, None, None, None], bias + shift
        self.register_buffer("second", second)
        self.register_buffer("second_bias", bias)
        self.register_buffer("adaptation", None if adaptation is None else adaptation.detach())

    first: Tensor
    first_bias: Tensor | None
    second: Tensor
    second_bias: Tensor
    adaptation: Tensor | None

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, C, H, W] → similarities [B, n, H', W']."""
        return conv2d(self.hidden(maps), self.second, self.second_bias, padding=self.padding)

    def hidden(self, maps: Tensor) -> Tensor:
        """Maps [B, C, H, W] → what the second convolution reads [B, h, H', W']."""
        window = self.window
        if self.adaptation is not None:
            maps = conv2d(maps, self.adaptation)
        if self.sphere:
            hidden = sphere_conv(maps, self.first, window, "input", self.measure)
            if self.affine is not None:
                hidden = hidden * self.affine
            if self.first_bias is not None:
                hidden = hidden + self.first_bias[:, None, None]
        else:
            hidden = conv2d(maps, self.first, self.first_bias, window.stride, window.padding, window.dilation)
        return relu(hidden)


class DynamicConv(nn.Module):
    """Convolution with a predicted similarity, as a static graph.

    Args:
        layer: trained layer with a predictor.
        predictor: folded.
    """

    def __init__(self, layer: SimilarityConv, predictor: FoldedPredictor) -> None:
        super().__init__()
        self.register_buffer("kernel", shaped(layer, layer.shaped_kernel()).detach())
        self.window, self.diagonal = layer.window, layer.diagonal
        self.predictor = predictor

    kernel: Tensor

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, C, H, W] → [B, O, H', W']."""
        similarity = self.predictor(maps)
        product = _PRODUCTS[self.form_on(similarity.shape[-2:])]
        return product(maps, self.kernel, similarity, self.window)

    def form_on(self, sides: tuple[int, ...]) -> str:
        """Name the form of answers with these sides: matrices, patches or shifts."""
        if not self.diagonal:
            return "matrices"
        return "patches" if max(sides) <= _SMALL_SIDE else "shifts"


class FoldedSphere(nn.Module):
    """Hyperspherical convolution with the norms of its filters folded in.

    Args:
        layer: trained layer.
    """

    def __init__(self, layer: SphereConv) -> None:
        super().__init__()
        kernel = layer.weight.detach()
        if layer.config.normalise == "both":
            kernel = unit_filters(kernel)
        self.register_buffer("kernel", kernel)
        self.window, self.measure = layer.window, layer.config.measure

    kernel: Tensor

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, C, H, W] → [B, O, H', W']."""
        return sphere_conv(maps, self.kernel, self.window, "input", self.measure)


def static_conv(layer: SimilarityConv) -> nn.Module:
    """Make the static form of a convolution with similarity."""
    source = layer.predictor
    if source is None:
        return ordinary_conv(layer)
    if isinstance(source, SharedPredictor):
        return DynamicConv(layer, FoldedPredictor(source.predictor, layer.window, source.adaptation))
    assert isinstance(source, SimilarityPredictor)
    return DynamicConv(layer, FoldedPredictor(source, layer.window, None))


def _affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Factor and shift [n] of batch normalisation in evaluation."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = (norm.weight * torch.rsqrt(norm.running_var + norm.eps)).detach()
    return scale, (norm.bias - norm.running_mean * scale).detach()
