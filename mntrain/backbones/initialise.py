"""Initial weights of convolutions."""

from torch import nn


def he_normal(module: nn.Module) -> None:
    """He-normal weights for every convolution inside ``module``."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
