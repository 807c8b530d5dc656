"""From maps and tokens to one vector an image.

Shapes: B images, T tokens, P of them patches, d features, h and w places of a map.
"""

from __future__ import annotations

from torch import Tensor

from mntrain.errors import ConfigError
from mntrain.networks.options import Pooling


def pool(features: Tensor, pooling: Pooling, patches: int | None = None) -> Tensor:
    """Pool tokens [B, T, d] or maps [B, d, h, w] to [B, d].

    A map of one place is flattened. ``cls`` takes the first token, ``mean`` the average of places, or of the last P
    tokens. Features [B, d], and maps or tokens that ``auto`` may not pool, stay as they are.

    Args:
        features: of a network.
        pooling: how.
        patches: P; None takes all tokens.

    Raises:
        ConfigError: ``cls`` of a map, which has no first token.
    """
    if features.dim() == 4:
        if features.shape[2:] == (1, 1):
            return features.flatten(1)
        if pooling == "cls":
            raise ConfigError("--pooling is cls, but the network gives maps, which have no first token; choose mean.")
        return features.mean((2, 3)) if pooling == "mean" else features
    if features.dim() == 3:
        if pooling == "mean":
            return features[:, -(patches or features.shape[1]) :].mean(1)
        if pooling == "cls":
            return features[:, 0]
    return features
