"""Static forms of the layers of a backbone, kind by kind."""

from functools import singledispatch

from torch import nn

from mnexport.forms.folded_norm import FoldedNorm
from mnexport.forms.similarity import FoldedSphere, static_conv
from mntrain.layers.ifilm import IFiLM
from mntrain.layers.similarity.conv import SimilarityConv, SphereConv


def static_layers(module: nn.Module) -> None:
    """Replace layers that have a static form, in place in ``module``, a copy of the trained one.

    Batch normalisation with iFiLM becomes one affine map, a convolution with a static similarity an ordinary one, and
    one with a dynamic similarity a masked one.

    Raises:
        FormError: a layer has none.
    """
    for name, child in module.named_children():
        layer = static_layer(child)
        if layer is child:
            static_layers(child)
        else:
            setattr(module, name, layer)


@singledispatch
def static_layer(layer: nn.Module) -> nn.Module:
    """Make the static form of a layer; most are their own."""
    return layer


@static_layer.register
def _(layer: nn.Sequential) -> nn.Module:
    if len(layer) == 2 and isinstance(layer[1], IFiLM):
        norm = layer[0]
        assert isinstance(norm, nn.BatchNorm2d)
        return FoldedNorm(norm, layer[1])
    return layer


@static_layer.register
def _(layer: SimilarityConv) -> nn.Module:
    return static_conv(layer)


@static_layer.register
def _(layer: SphereConv) -> nn.Module:
    return FoldedSphere(layer)
