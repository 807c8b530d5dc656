"""ConvNet-4 as published: widths, no ReLU at the end, the authors' normalisation."""

import torch
from torch import nn

from mntrain.backbones.convnet4 import ConvNet4


def test_layers_are_those_of_the_paper() -> None:
    backbone = ConvNet4(3)
    convolutions = [module for module in backbone.modules() if isinstance(module, nn.Conv2d)]
    assert [module.out_channels for module in convolutions] == [24, 96, 192, 192]
    norms = [module for module in backbone.modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 4
    assert all((norm.eps, norm.momentum) == (1e-3, 0.1) for norm in norms)
    assert backbone.features == 192


def test_there_is_no_relu_at_the_end() -> None:
    torch.manual_seed(0)
    features = ConvNet4(3)(torch.randn(8, 3, 32, 32))
    assert features.shape == (8, 192)
    maps = ConvNet4(3).layers(torch.randn(8, 3, 32, 32))
    assert maps.shape == (8, 192, 8, 8)
    assert (maps < 0).float().mean() > 0.3
