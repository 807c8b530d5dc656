"""Backbones: structure, feature width and parameter counts, each against a count by hand.

Shapes: images [B, 3, H, W], features [B, d].
"""

import pytest
import torch
from torch import nn

from mntrain.backbones.config import BACKBONES, BackboneConfig, build_backbone

IMAGE = (3, 32, 32)
FEATURES = {
    "cnn4": 128,
    "cnn9": 256,
    "cnn10": 512,
    "convnet4": 192,
    "densenet40bc": 258,
    "resnet29": 256,
    "resnet56": 256,
}
FLAT = {"mlp", "identity"}
PLAIN = {"cnn4", "cnn9", "cnn10"}
"""Backbones whose maps become features as they are: they know the size of their images, and end with a ReLU."""
CONVOLUTIONAL = sorted(set(BACKBONES) - FLAT)


def convolution(before: int, after: int, side: int) -> int:
    return before * after * side * side


def norm(channels: int, ifilm: bool) -> int:
    return 2 * channels + (3 * 10 * channels if ifilm else 0)


def count_convnet4(ifilm: bool) -> int:
    total, before = 0, 3
    for after in (24, 96, 192, 192):
        total += convolution(before, after, 3) + norm(after, ifilm)
        before = after
    return total


def count_resnet(blocks: int, ifilm: bool) -> int:
    total, before = convolution(3, 16, 3), 16
    for after in (64, 128, 256):
        for block in range(blocks):
            middle = after // 4
            total += norm(before, ifilm) + convolution(before, middle, 1)
            total += norm(middle, ifilm) + convolution(middle, middle, 3)
            total += norm(middle, ifilm) + convolution(middle, after, 1)
            if block == 0:
                total += convolution(before, after, 1) + norm(after, ifilm)
            before = after
    return total + norm(256, ifilm)


def count_densenet(ifilm: bool) -> int:
    total, before = convolution(3, 24, 3), 24
    for block in range(3):
        for _ in range(12):
            total += norm(before, ifilm) + convolution(before, 48, 1) + norm(48, ifilm) + convolution(48, 12, 3)
            before += 12
        if block < 2:
            total += norm(before, ifilm) + convolution(before, before // 2, 1)
            before //= 2
    return total + norm(before, ifilm)


def count_plain(widths: tuple[int, ...], convolutions: int, stem: int, units: int, ifilm: bool) -> int:
    total = convolution(3, stem, 7) + norm(stem, ifilm) if stem else 0
    before, side = (stem, 32 // 4) if stem else (3, 32)
    for after in widths:
        for _ in range(convolutions):
            total += convolution(before, after, 3) + norm(after, ifilm)
            before = after
        side //= 2
    return total + before * side * side * units + 2 * units


BY_HAND = {
    "cnn4": lambda ifilm: count_plain((32, 32, 32, 32), 1, 0, 0, ifilm),
    "cnn9": lambda ifilm: count_plain((32, 64, 128), 3, 0, 256, ifilm),
    "cnn10": lambda ifilm: count_plain((64, 128, 256), 3, 64, 512, ifilm),
    "convnet4": count_convnet4,
    "resnet29": lambda ifilm: count_resnet(3, ifilm),
    "resnet56": lambda ifilm: count_resnet(6, ifilm),
    "densenet40bc": count_densenet,
}


def test_every_backbone_has_a_count_by_hand() -> None:
    assert set(CONVOLUTIONAL) == set(FEATURES) == set(BY_HAND)


@pytest.mark.parametrize("ifilm", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_parameters_are_those_counted_by_hand(name: str, ifilm: bool) -> None:
    backbone = build_backbone(BackboneConfig(name=name, ifilm=ifilm), IMAGE)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == BY_HAND[name](ifilm)
    assert backbone.features == FEATURES[name]


@pytest.mark.parametrize(("name", "layers"), [("resnet29", 29), ("resnet56", 56)])
def test_a_resnet_has_as_many_layers_as_its_name_says(name: str, layers: int) -> None:
    backbone = build_backbone(BackboneConfig(name=name), IMAGE)
    inside = [module for key, module in backbone.named_modules() if "projection" not in key]
    assert sum(isinstance(module, nn.Conv2d) for module in inside) + 1 == layers, "the classifier is the last layer"


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_images_of_both_published_sizes_give_features_without_relu(name: str, size: int) -> None:
    shape = (3, size, size) if name in PLAIN else IMAGE
    backbone = build_backbone(BackboneConfig(name=name, width=0.25), shape).eval()
    with torch.inference_mode():
        features = backbone(torch.randn(2, *shape[:1], size, size))
    assert features.shape == (2, backbone.features)
    assert bool((features < 0).any()) != (name in PLAIN), "no ReLU at the end: features are roughly Gaussian"


@pytest.mark.parametrize("size", [35, 61])
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_plain_networks_round_sides_as_their_layers_do(name: str, size: int) -> None:
    backbone = build_backbone(BackboneConfig(name=name, width=0.25), (3, size, size)).eval()
    with torch.inference_mode():
        assert backbone(torch.zeros(1, 3, size, size)).shape == (1, backbone.features)


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_ifilm_starts_as_the_plain_backbone(name: str) -> None:
    torch.manual_seed(0)
    adapted = build_backbone(BackboneConfig(name=name, width=0.25, ifilm=True), IMAGE).eval()
    plain = build_backbone(BackboneConfig(name=name, width=0.25), IMAGE).eval()
    weights = [value for key, value in adapted.state_dict().items() if key.split(".")[-1] not in _IFILM]
    plain.load_state_dict(dict(zip(plain.state_dict(), weights, strict=True)))
    images = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(adapted(images), plain(images))


_IFILM = {"keys", "scales", "shifts"}
