"""Convolution with a static or dynamic neural similarity (eq. 1 to 5 of Neural Similarity Learning).

Shapes: maps x [B, C, H, W], kernel w [O, C/g, k, k], answers [B, O, H', W']; K = k² taps.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from mntrain.layers.similarity.apply import Window, folded_kernel
from mntrain.layers.similarity.blocks import predicted_product
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.predictor import SimilarityPredictor
from mntrain.layers.similarity.shape import KernelShape
from mntrain.layers.similarity.sphere import orthogonality, sphere_conv


class SharedPredictor(nn.Module):
    """Predictor of several layers, behind a convolution of 1×1 of the layer's own and with its own normalisation.

    Layers share the convolutions alone: running statistics of all of them together would be those of none, so that the
    network would answer otherwise in evaluation than it was trained.

    Args:
        channels: C of the layer.
        window: of the layer; its kernel is that of the other layers.
        predictor: shared; it is a part of the layer that owns it, and known to the others.
        owns: whether this layer owns it, with the normalisation.
        generator: that the weights are drawn from.
    """

    def __init__(
        self, channels: int, window: Window, predictor: SimilarityPredictor, *, owns: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.window = window._replace(groups=1)
        drawn = torch.randn(predictor.first.shape[1], channels, 1, 1, generator=generator)
        self.adaptation = nn.Parameter(drawn * (2 / channels) ** 0.5)
        self.norms: nn.ModuleList | None = None
        if owns:
            self.own = predictor
        else:
            self.norms = predictor.new_norms()
        self._shared = (predictor,)  # in a tuple, so that its owner alone lists its parameters

    @property
    def predictor(self) -> SimilarityPredictor:
        """The shared predictor, as this layer has it."""
        shared = self._shared[0]
        return shared if self.norms is None else shared.of_layer(self.window, self.norms)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, C, H, W] → similarities [B, n, H', W']."""
        similarities: Tensor = self._shared[0](conv2d(maps, self.adaptation), self.window, self.norms)
        return similarities


class SimilarityConv(nn.Conv2d):
    """Convolution y(p) = Σ_ij M_ij w_iᵀ x(p + j) without bias; M starts as the identity.

    Its kernel is called ``weight``, so that weights of an ordinary convolution fit it.

    Args:
        before: C.
        after: O.
        window: of the kernel.
        config: mode static or dynamic, kind and kernel shape.
        predictor: predicts M of every position; None learns one M for all.
    """

    without_decay = ("similarity",)
    """Parameters that weight decay would pull to 0 and not to the identity."""
    additions = ("similarity", "predictor", "shape")
    """What an ordinary convolution has not."""

    def __init__(
        self, before: int, after: int, window: Window, config: SimilarityConfig, predictor: nn.Module | None = None
    ) -> None:
        kernel, stride, padding, dilation, groups = window
        super().__init__(before, after, kernel, stride, padding, dilation, groups, bias=False)
        self.window = window
        self.diagonal = config.kind == "diagonal"
        taps = kernel**2
        self.similarity = None
        if predictor is None:
            self.similarity = nn.Parameter(torch.ones(taps) if self.diagonal else torch.eye(taps))
        self.predictor = predictor
        self.shape: KernelShape | None = None
        if config.kernel_shape:
            self.shape = KernelShape(taps, config.shape_threshold, config.shape_keep, config.shape_penalty)

    def shaped_kernel(self) -> Tensor:
        """Kernel [O, C/g, k, k] with the taps that its shape keeps, and for a static similarity the fold of M."""
        weight: Tensor = self.weight
        if self.shape is not None:
            weight = folded_kernel(weight, self.shape())
        return weight if self.similarity is None else folded_kernel(weight, self.similarity)

    def forward(self, input: Tensor) -> Tensor:
        """Maps [B, C, H, W] → [B, O, H', W']."""
        kernel, window = self.shaped_kernel(), self.window
        if self.predictor is None:
            return conv2d(input, kernel, None, window.stride, window.padding, window.dilation, window.groups)
        return predicted_product(input, kernel, self.predictor(input), window)


class SphereConv(nn.Conv2d):
    """Convolution whose answers are functions of the angle between filter and patch: M = I / (‖w‖ ‖x‖).

    Args:
        before: C.
        after: O.
        window: of the kernel.
        config: norms and measure.
    """

    def __init__(self, before: int, after: int, window: Window, config: SimilarityConfig) -> None:
        kernel, stride, padding, dilation, groups = window
        super().__init__(before, after, kernel, stride, padding, dilation, groups, bias=False)
        self.window, self.config = window, config

    def forward(self, input: Tensor) -> Tensor:
        """Maps [B, C, H, W] → [B, O, H', W']."""
        return sphere_conv(input, self.weight, self.window, self.config.normalise, self.config.measure)

    def penalty(self) -> Tensor | None:
        """Compute the distance [] of the filters from orthogonal ones times its factor."""
        factor = self.config.orthogonality
        return factor * orthogonality(self.weight) if factor else None
