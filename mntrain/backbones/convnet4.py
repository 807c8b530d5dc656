"""ConvNet-4, the small feature extractor of the Meta-Neighborhoods experiments.

Shapes: images [B, channels, H, W] → features [B, 192·width].
"""

from torch import Tensor, nn

from mntrain.layers.factories import ORDINARY, Layers

_WIDTHS = (24, 96, 192, 192)
_POOLED = 2  # the first two convolutions are followed by a pooling


class ConvNet4(nn.Module):
    """Four 3×3 convolutions with normalisation, global average pooling at the end.

    The last ReLU is left out, so that features are roughly Gaussian like the keys they are compared with (section 2.3).

    Args:
        channels: input channels.
        width: factor on every layer's width.
        layers: kinds of its layers.
    """

    def __init__(self, channels: int, width: float = 1.0, layers: Layers = ORDINARY) -> None:
        super().__init__()
        widths = [max(1, round(base * width)) for base in _WIDTHS]
        parts: list[nn.Module] = []
        before = channels
        for index, after in enumerate(widths):
            conv = layers.conv if index else layers.stem
            parts += [conv(before, after, 3, padding=1), layers.norm(after)]
            if index + 1 < len(widths):
                parts.append(nn.ReLU(inplace=True))
            if index < _POOLED:
                parts.append(nn.MaxPool2d(3, stride=2, padding=1))
            before = after
        self.layers = nn.Sequential(*parts)
        self.features = before

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, channels, H, W] → features [B, d]."""
        maps: Tensor = self.layers(images)
        return maps.mean(dim=(2, 3))
