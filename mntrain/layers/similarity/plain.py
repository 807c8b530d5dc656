"""Ordinary twins of networks with neural similarity: the same kernels, compared by inner products."""

import copy

from torch import nn

from mntrain.layers.similarity.conv import SimilarityConv, SphereConv
from mntrain.layers.similarity.global_similarity import GlobalSimilarity


def plain_twin(module: nn.Module) -> nn.Module:
    """Copy a network with M = I in every layer: predictors, kernel shapes and what mixes positions are dropped.

    A network without similarity is returned as it is.
    """
    if not any(isinstance(layer, (SimilarityConv, SphereConv, GlobalSimilarity)) for layer in module.modules()):
        return module
    twin = copy.deepcopy(module)
    _replace(twin)
    return twin


def _replace(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, (SimilarityConv, SphereConv)):
            window = child.window
            plain = nn.Conv2d(child.in_channels, child.out_channels, *window[:4], window.groups, bias=False)
            plain.weight = nn.Parameter(child.weight.detach())
            setattr(module, name, plain)
        elif isinstance(child, GlobalSimilarity):
            setattr(module, name, nn.Identity())
        else:
            _replace(child)
