"""ResNet-29 and ResNet-56 with pre-activation bottlenecks (He et al. 2016; Meta-Neighborhoods, section 4.2).

Shapes: images [B, channels, H, W] → features [B, 256·width].
"""

from torch import Tensor, nn
from torch.nn.functional import relu

from mntrain.layers.factories import ORDINARY, Layers

_STEM = 16
_STAGES = (64, 128, 256)
_BOTTLENECK = 4


class Bottleneck(nn.Module):
    """norm–ReLU–conv three times (1×1, 3×3, 1×1), added to the input or to its normalised projection.

    Args:
        before: channels that come in.
        after: channels that go out.
        stride: of the 3×3 convolution.
        layers: kinds of its layers.
    """

    def __init__(self, before: int, after: int, stride: int, layers: Layers) -> None:
        super().__init__()
        middle = max(1, after // _BOTTLENECK)
        self.norm1, self.conv1 = layers.norm(before), layers.conv(before, middle, 1)
        self.norm2, self.conv2 = layers.norm(middle), layers.conv(middle, middle, 3, stride=stride, padding=1)
        self.norm3, self.conv3 = layers.norm(middle), layers.conv(middle, after, 1)
        self.projection: nn.Module | None = None
        if before != after or stride != 1:
            self.projection = nn.Sequential(layers.conv(before, after, 1, stride=stride), layers.norm(after))

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [B, before, H, W] → [B, after, H/stride, W/stride]."""
        active = relu(self.norm1(maps))
        shortcut: Tensor = maps if self.projection is None else self.projection(active)
        active = self.conv1(active)
        active = self.conv2(relu(self.norm2(active)))
        active = self.conv3(relu(self.norm3(active)))
        out: Tensor = shortcut + active
        return out


class ResNet(nn.Module):
    """A 3×3 stem, three stages of bottlenecks, normalisation without ReLU, global average pooling.

    Args:
        channels: input channels.
        width: factor on every layer's width.
        layers: kinds of its layers.
        blocks: bottlenecks a stage: 3 make ResNet-29, 6 ResNet-56 (9·blocks + 2 layers).
    """

    def __init__(self, channels: int, width: float = 1.0, layers: Layers = ORDINARY, *, blocks: int) -> None:
        super().__init__()
        before = max(1, round(_STEM * width))
        self.stem = layers.stem(channels, before, 3, padding=1)
        bottlenecks: list[nn.Module] = []
        for stage, base in enumerate(_STAGES):
            after = max(1, round(base * width))
            for block in range(blocks):
                bottlenecks.append(Bottleneck(before, after, 2 if stage > 0 and block == 0 else 1, layers))
                before = after
        self.blocks = nn.Sequential(*bottlenecks)
        self.norm = layers.norm(before)
        self.features = before

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, channels, H, W] → features [B, d]."""
        maps: Tensor = self.norm(self.blocks(self.stem(images)))
        return maps.mean(dim=(2, 3))
