"""DenseNet40-BC (Huang et al. 2017; Meta-Neighborhoods, section 4.2).

Shapes: images [B, channels, H, W] → features [B, 258] at width 1.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, relu

from mntrain.layers.dropout import dropout
from mntrain.layers.factories import ORDINARY, Layers

_GROWTH = 12
_BOTTLENECK = 4
_LAYERS = 12
_BLOCKS = 3
_COMPRESSION = 0.5
_DROPOUT = 0.2


class DenseLayer(nn.Module):
    """norm–ReLU–1×1, norm–ReLU–3×3; its output is appended to its input.

    Args:
        before: channels that come in.
        growth: channels that are appended.
        layers: kinds of its layers.
    """

    def __init__(self, before: int, growth: int, layers: Layers) -> None:
        super().__init__()
        middle = _BOTTLENECK * growth
        self.norm1, self.conv1 = layers.norm(before), layers.conv(before, middle, 1)
        self.norm2, self.conv2 = layers.norm(middle), layers.conv(middle, growth, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, before, H, W] → [B, before + growth, H, W]."""
        new = dropout(self.conv1(relu(self.norm1(maps))), _DROPOUT, self.training)
        new = dropout(self.conv2(relu(self.norm2(new))), _DROPOUT, self.training)
        return torch.cat([maps, new], dim=1)


class Transition(nn.Module):
    """norm–ReLU–1×1 and 2×2 average pooling between two blocks.

    Args:
        before: channels that come in.
        after: channels that go out.
        layers: kinds of its layers.
    """

    def __init__(self, before: int, after: int, layers: Layers) -> None:
        super().__init__()
        self.norm, self.conv = layers.norm(before), layers.conv(before, after, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, before, H, W] → [B, after, H/2, W/2]."""
        return avg_pool2d(dropout(self.conv(relu(self.norm(maps))), _DROPOUT, self.training), 2)


class DenseNet40BC(nn.Module):
    """A 3×3 stem of 2·growth channels, three blocks of 12 layers, compression 0.5, no ReLU at the end.

    Args:
        channels: input channels.
        width: factor on the growth of 12.
        layers: kinds of its layers.
    """

    def __init__(self, channels: int, width: float = 1.0, layers: Layers = ORDINARY) -> None:
        super().__init__()
        growth = max(1, round(_GROWTH * width))
        before = 2 * growth
        self.stem = layers.stem(channels, before, 3, padding=1)
        blocks: list[nn.Module] = []
        for block in range(_BLOCKS):
            for _ in range(_LAYERS):
                blocks.append(DenseLayer(before, growth, layers))
                before += growth
            if block + 1 < _BLOCKS:
                after = int(before * _COMPRESSION)
                blocks.append(Transition(before, after, layers))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.norm = layers.norm(before)
        self.features = before

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, channels, H, W] → features [B, d]."""
        maps: Tensor = self.norm(self.blocks(self.stem(images)))
        return maps.mean(dim=(2, 3))
