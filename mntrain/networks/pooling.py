"""From maps and tokens to one vector an image.

Shapes: B images, T tokens, P of them patches, d features, h and w places of a map, H' and W' of the network's input.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mntrain.errors import ConfigError
from mntrain.networks.options import Pooling


def pool(
    features: Tensor,
    pooling: Pooling,
    *,
    size: tuple[int, int],
    width: int | None = None,
    patches: int | None = None,
) -> Tensor:
    """Pool tokens [B, T, d] or maps [B, d, h, w] or [B, h, w, d] to [B, d].

    A map of one place is flattened. ``cls`` takes the first token, ``mean`` the average of places, or of the last P
    tokens. Features [B, d], and maps or tokens that ``auto`` may not pool, stay as they are.

    Args:
        features: of a network.
        pooling: how.
        size: H' and W'.
        width: d, where it is known.
        patches: P; None takes all tokens.

    Raises:
        ConfigError: ``cls`` of a map, which has no first token; or a map does not tell where its channels are.
    """
    shape = features.shape
    if features.dim() == 4:
        if 1 == shape[2] == shape[3] or 1 == shape[1] == shape[2]:
            return features.flatten(1)
        if pooling == "cls":
            raise ConfigError("--pooling is cls, but the network gives maps, which have no first token; choose mean.")
    if features.dim() == 3 and pooling == "cls":
        return features[:, 0]
    if features.dim() not in (3, 4) or pooling != "mean":
        return features
    if (axes := averaged_axes(shape, size, width)) is None:
        raise ConfigError(
            f"--pooling is mean, but maps of shape {list(shape[1:])} do not tell which axis has the channels; name "
            "the tensor behind the network's own average, or another one."
        )
    if axes == (1,):
        features = features[:, -(patches or shape[1]) :]
    return features.mean(axes)


def averaged_axes(shape: Sequence[int], size: tuple[int, int], width: int | None) -> tuple[int, ...] | None:
    """Find the axes of places or tokens; None where a map does not tell them.

    Places lie like those of the input, so their numbers have its proportions; where both orders of axes have them,
    the number of channels decides.

    Args:
        shape: [B, d, h, w], [B, h, w, d], [B, T, d], or [B, d, T] where d is known.
        size: H' and W'.
        width: d, where it is known.
    """
    if len(shape) == 3:
        return (2,) if shape[1] == width != shape[2] else (1,)
    fitting = [axes for axes in ((2, 3), (1, 2)) if _has_proportions(shape[axes[0]], shape[axes[1]], size)]
    if len(fitting) != 1:
        fitting = [axes for axes, channels in (((2, 3), 1), ((1, 2), 3)) if shape[channels] == width]
    return fitting[0] if len(fitting) == 1 else None


def _has_proportions(height: int, width: int, size: tuple[int, int]) -> bool:
    """Tell if a map has the proportions of the input, within a place of rounding."""
    if size[0] == size[1]:
        return height == width
    return abs(height * size[1] - width * size[0]) <= max(size)
