"""Predictor of the similarity of every position (section 3.3 of Neural Similarity Learning).

Shapes: maps x [B, C, H, W], hidden [B, h, H', W'], similarities [B, n, H', W'] with n = K or K² numbers for K taps.
"""

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

from mntrain.layers.norm import batch_norm
from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.sphere import orthogonality, sphere_conv


class SimilarityPredictor(nn.Module):
    """Two convolutions: one with the window of the layer, of a sphere on request, and one of its answers.

    With the residual every similarity is the identity at the start, so that the layer is an ordinary convolution. As in
    the authors' code a diagonal one is normalised twice, and an unconstrained one never.

    Args:
        channels: C.
        window: of the layer; its groups do not count.
        config: kind, hidden channels and second kernel.
        generator: that the weights are drawn from.
    """

    def __init__(self, channels: int, window: Window, config: SimilarityConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.window, self.config = window._replace(groups=1), config
        hidden, taps, second = config.hidden_channels, window.kernel**2, config.second_kernel
        self.diagonal = config.kind == "diagonal"
        numbers = taps if self.diagonal else taps**2
        self.first = _he_normal((hidden, channels, window.kernel, window.kernel), generator)
        self.second = _he_normal((numbers, hidden, second, second), generator)
        self.norms = self.new_norms()
        if config.residual and not self.diagonal:
            nn.init.zeros_(self.second)

    def new_norms(self) -> nn.ModuleList:
        """Make the normalisations of one layer; with the residual the last one starts at 0."""
        if not self.diagonal:
            return nn.ModuleList()
        hidden, last = (batch_norm(len(kernel)) for kernel in (self.first, self.second))
        if self.config.residual:
            nn.init.zeros_(last.weight)  # type: ignore[arg-type]
        return nn.ModuleList([hidden, last])

    def of_layer(self, window: Window, norms: nn.ModuleList) -> "SimilarityPredictor":
        """View the same convolutions with the window and the normalisations of another layer."""
        view = copy.copy(self)
        view.window = window._replace(groups=1)
        view._modules = {**self._modules, "norms": norms}  # the copy has the dictionary of the original
        return view

    def forward(self, maps: Tensor, window: Window | None = None, norms: nn.ModuleList | None = None) -> Tensor:
        """Maps [B, C, H, W] → similarities [B, n, H', W'], for window and normalisations of another layer if given."""
        window, norms, config = window or self.window, self.norms if norms is None else norms, self.config
        if config.predictor == "sphere":
            hidden = sphere_conv(maps, self.first, window, config.normalise, config.measure)
        else:
            hidden = conv2d(maps, self.first, None, window.stride, window.padding, window.dilation)
        if self.diagonal:
            hidden = norms[0](hidden)
        predicted = conv2d(relu(hidden), self.second, padding=config.second_kernel // 2)
        if self.diagonal:
            predicted = norms[1](predicted)
        if not config.residual:
            return predicted
        return predicted + (1 if self.diagonal else identity_numbers(predicted, window.kernel**2)[:, None, None])

    def penalty(self) -> Tensor | None:
        """Compute the distance [] of sphere filters from orthogonal ones times its factor."""
        factor = self.config.orthogonality
        return factor * orthogonality(self.first) if factor and self.config.predictor == "sphere" else None


def identity_numbers(like: Tensor, taps: int) -> Tensor:
    """Numbers [K²] of the identity matrix, in the type and on the device of ``like``."""
    return torch.eye(taps, dtype=like.dtype, device=like.device).flatten()


def _he_normal(shape: tuple[int, ...], generator: torch.Generator) -> nn.Parameter:
    fan_in = math.prod(shape[1:])
    return nn.Parameter(torch.randn(shape, generator=generator) * math.sqrt(2 / fan_in))
