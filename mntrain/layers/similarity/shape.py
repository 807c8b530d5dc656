"""Kernel shape: a Boolean mask of the taps, learned by the straight-through rule (eq. 4 and 5).

Shapes: scores D_r and mask D [K].
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from mntrain.errors import ConfigError, TrainingError


class _StraightThrough(torch.autograd.Function):
    """Booleans of scores; the derivative by the mask is taken for that by the scores."""

    @staticmethod
    def forward(scores: Tensor, threshold: float, keep: int) -> Tensor:
        """Scores [K] → mask [K] of 0 and 1."""
        return chosen_taps(scores, threshold, keep)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, int], output: Tensor) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Gradient by the mask, unchanged."""
        return gradient, None, None

    @staticmethod
    def jvp(ctx: Any, along: Tensor, *_: None) -> Tensor:
        """Tangent of the scores, unchanged: the same rule in forward mode."""
        return along.view_as(along)


def chosen_taps(scores: Tensor, threshold: float, keep: int) -> Tensor:
    """Choose taps by their scores: D [K] of 0 and 1.

    Args:
        scores: D_r [K].
        threshold: α; taps with a higher score stay.
        keep: most taps that stay, those of the highest scores, of equal ones those nearest to the middle; 0 for any
            number.
    """
    mask = scores > threshold
    if keep:
        outward = _outward(len(scores)).to(scores.device)
        kept = outward[scores[outward].argsort(descending=True, stable=True)[:keep]]
        mask &= torch.zeros_like(mask).index_fill(0, kept, True)
    return mask.to(scores.dtype)


def _outward(taps: int) -> Tensor:
    """Order the taps of a square kernel from its middle: [K]."""
    side = math.isqrt(taps)
    places = torch.arange(side) - (side - 1) / 2
    return (places[:, None].square() + places.square()).flatten().argsort(stable=True)


class KernelShape(nn.Module):
    """Learned shape of a kernel of K taps; all of them stay at the start.

    Args:
        taps: K.
        threshold: α.
        keep: most taps that stay; 0 for any number.
        factor: of the ℓ1 norm of the scores in the loss.

    Raises:
        ConfigError: more taps would be kept than there are.
    """

    estimated = ("scores",)
    """Parameters that the straight-through rule moves."""

    def __init__(self, taps: int, threshold: float, keep: int = 0, factor: float = 0.0) -> None:
        super().__init__()
        if keep > taps:
            raise ConfigError(
                f"backbone.similarity.shape_keep is {keep}, but a kernel has {taps} taps here; give at most {taps}, or "
                "0 for any number."
            )
        self.scores = nn.Parameter(torch.ones(taps))
        self.threshold, self.keep, self.factor = threshold, keep, factor

    def forward(self) -> Tensor:
        """Mask D [K], through which the scores learn."""
        mask: Tensor = _StraightThrough.apply(self.scores, self.threshold, self.keep)  # type: ignore[no-untyped-call]
        return mask

    def penalty(self) -> Tensor | None:
        """Compute the ℓ1 norm [] of the scores times its factor."""
        return self.factor * self.scores.abs().sum() if self.factor else None


def require_taps(network: nn.Module, epoch: int) -> None:
    """Check that every kernel shape of a network keeps a tap.

    Args:
        network: with any layers.
        epoch: just trained, from 1.

    Raises:
        TrainingError: a shape keeps none, so that its layer answers nothing.
    """
    for name, module in network.named_modules():
        if not isinstance(module, KernelShape) or module().any():
            continue
        layer, section = name.removesuffix(".shape"), "backbone.similarity"
        penalty = f"{module.factor} now" if module.factor else "0 already"
        raise TrainingError(
            f"The kernel shape of layer {layer} has no tap left after epoch {epoch}, so the layer "
            f"answers nothing: its highest score, {float(module.scores.detach().max()):.4g}, is not above "
            f"{section}.shape_threshold, {module.threshold}; lower that, or {section}.shape_penalty ({penalty})."
        )
