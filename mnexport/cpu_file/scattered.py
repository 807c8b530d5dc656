"""Dynamic similarities in the form that CPUs are fastest with: products of all taps, masked and added up.

Shapes: maps [B, C, H, W], answers [B, O, H', W'], hidden maps of the predictor [B, h, H', W'], K = k² taps.

ONNX's ``Col2Im`` adds up; TensorRT has no such operator and ONNX Runtime none for GPUs, so that the form is for CPUs.
"""

import copy
import math

from torch import Tensor, nn
from torch.nn.functional import conv2d

from mnexport.forms.similarity import DynamicConv
from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.scattered import scattered_conv, scattered_masks, scattered_product, scatters

_PRODUCT_BYTES = 320 * 2**10
"""Products of one image that are made at a time: a part of a processor's second cache."""
_FEWEST_FILTERS = 8
"""Filters of a part at least: products with fewer rows are slow."""


def scattered_for_cpus(module: nn.Module) -> tuple[nn.Module, int]:
    """Copy a static form, with its predicted diagonal similarities in this form.

    Returns:
        The copy, and the number of layers in this form; the module itself where there are none.
    """
    if not any(map(_can_scatter, module.modules())):
        return module, 0
    scattered = copy.deepcopy(module)
    return scattered, _replace(scattered)


class ScatteredConv(nn.Module):
    """Convolution with a predicted diagonal similarity.

    Args:
        layer: in its ordinary static form.
    """

    def __init__(self, layer: DynamicConv) -> None:
        super().__init__()
        self.window, self.predictor = layer.window, layer.predictor
        self.register_buffer("kernel", layer.kernel)
        # Taps in reverse, as the masks have to be.
        self.register_buffer("second", self.predictor.second.flip(0))
        self.register_buffer("bias", self.predictor.second_bias.flip(0))

    kernel: Tensor
    second: Tensor
    bias: Tensor

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, C, H, W] → [B, O, H', W']."""
        masks = scattered_masks(self._masks(self.predictor.hidden(maps)), self.window, self.bias)
        filters = len(self.kernel)
        products = 4 * filters * self.window.kernel**2 * math.prod(maps.shape[-2:])
        parts = min(math.ceil(products / _PRODUCT_BYTES), max(filters // _FEWEST_FILTERS, 1))
        return scattered_product(maps, self.kernel, masks, self.window, parts)

    def _masks(self, hidden: Tensor) -> Tensor:
        """Hidden maps → masks without their bias, taps in reverse [B, K, H', W']."""
        side = self.second.shape[-1]
        if side == 1:
            return conv2d(hidden, self.second)
        return scattered_conv(hidden, self.second, Window(side, padding=self.predictor.padding))


def _can_scatter(layer: nn.Module) -> bool:
    return isinstance(layer, DynamicConv) and layer.diagonal and scatters(layer.window)


def _replace(module: nn.Module) -> int:
    """Replace layers in place; count them."""
    count = 0
    for name, child in module.named_children():
        if isinstance(child, DynamicConv) and _can_scatter(child):
            setattr(module, name, ScatteredConv(child))
            count += 1
        else:
            count += _replace(child)
    return count
