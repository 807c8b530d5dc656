"""Plain networks of Neural Similarity Learning (Liu et al., NeurIPS 2019, appendix A): CNN-4, CNN-9 and CNN-10.

Shapes: images [B, channels, H, W] → features [B, d].
"""

from dataclasses import dataclass

from torch import Tensor, nn

from mntrain.layers.factories import ORDINARY, ConvFactory, Layers
from mntrain.layers.norm import batch_norm


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Layers of a plain network.

    Args:
        widths: filters of each stage.
        convolutions: of each stage.
        stem: filters of a stem of 7×7 with stride 2 and a pooling of 3×3 with stride 2; 0 for none.
        units: width of the fully connected layer; 0 takes the maps of the last stage as features.
    """

    widths: tuple[int, ...]
    convolutions: int
    stem: int = 0
    units: int = 0

    @property
    def smallest_side(self) -> int:
        """Pixels that the poolings leave something of."""
        return 1 << (len(self.widths) + (2 if self.stem else 0))


CNN4 = Stages(widths=(32, 32, 32, 32), convolutions=1)
CNN9 = Stages(widths=(32, 64, 128), convolutions=3, units=256)
CNN10 = Stages(widths=(64, 128, 256), convolutions=3, stem=64, units=512)


class PlainNetwork(nn.Module):
    """Stages of convolutions of 3×3 with a pooling of 2×2 each, and a fully connected layer; all normalised, with ReLU.

    The first convolution, which reads the image, is the stem. CNN-4 has the pooled maps of its last stage as features.

    Args:
        shape: of one image (channels, height, width).
        width: factor on the width of every layer.
        layers: kinds of its layers.
        plan: its stages.
    """

    def __init__(
        self, shape: tuple[int, int, int], width: float = 1.0, layers: Layers = ORDINARY, *, plan: Stages
    ) -> None:
        super().__init__()
        before, *sides = shape
        parts: list[nn.Module] = []

        def convolve(make: ConvFactory, after: int, kernel: int, stride: int = 1) -> None:
            nonlocal before
            parts.extend([make(before, after, kernel, stride=stride, padding=kernel // 2), layers.norm(after)])
            parts.append(nn.ReLU(inplace=True))
            before = after

        if plan.stem:
            convolve(layers.stem, _scaled(plan.stem, width), 7, 2)
            parts.append(nn.MaxPool2d(3, stride=2, padding=1))
            sides = [((side + 1) // 2 + 1) // 2 for side in sides]
        for stage, filters in enumerate(plan.widths):
            for index in range(plan.convolutions):
                first = stage == index == 0 and not plan.stem
                convolve(layers.stem if first else layers.conv, _scaled(filters, width), 3)
            pooling: nn.Module = nn.MaxPool2d(2)
            sides = [side // 2 for side in sides]
            if layers.across is not None and stage + 1 < len(plan.widths):
                pooling = nn.Sequential(pooling, layers.across(before, sides[0] * sides[1]))
            parts.append(pooling)
        self.features = before * sides[0] * sides[1]
        if plan.units:
            # The fully connected layer as a convolution that sees the whole map, normalised as all others are.
            self.features = _scaled(plan.units, width)
            connected = nn.Conv2d(before, self.features, (sides[0], sides[1]), bias=False)
            parts += [connected, batch_norm(self.features), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*parts)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, channels, H, W] → features [B, d]."""
        features: Tensor = self.layers(images).flatten(1)
        return features


def _scaled(filters: int, width: float) -> int:
    return max(1, round(filters * width))
