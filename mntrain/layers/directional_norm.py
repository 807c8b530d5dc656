"""The directional derivative of batch normalisation at the price of a few passes over the maps.

Shapes: maps x and their tangent ẋ [B, C, H, W]; weight w, bias b, their tangents, mean m and reciprocal standard
deviation r: [C].
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx


class DirectionalBatchNorm(torch.autograd.Function):
    """Batch normalisation by the statistics of the batch, with a forward-mode derivative.

    With x̂ = r (x − m) the tangent of w x̂ + b is w r (ẋ − mean ẋ − x̂ mean(x̂ ẋ)) + ẇ x̂ + ḃ: for every channel a number
    times ẋ, a number times x, and a number. PyTorch's own derivative forms each term as a map of its own. There is no
    derivative of the other kind: the layer is taken only where no gradient is recorded.
    """

    @staticmethod
    def forward(maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised maps, m and r."""
        normalised, mean, reciprocal = torch.native_batch_norm(maps, weight, bias, None, None, True, 0.0, epsilon)
        return normalised, mean, reciprocal

    @staticmethod
    def setup_context(
        ctx: FunctionCtx, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        """Keeps what the derivative needs."""
        _, mean, reciprocal = output
        ctx.mark_non_differentiable(mean, reciprocal)
        ctx.save_for_forward(inputs[0], inputs[1], mean, reciprocal)

    @staticmethod
    def jvp(
        ctx: FunctionCtx, along: Tensor, weight_along: Tensor, bias_along: Tensor, _: None
    ) -> tuple[Tensor, None, None]:
        """The tangent of the normalised maps, in their dtype; sums and numbers of channels are float32."""
        maps, weight, mean, reciprocal = ctx.saved_tensors  # type: ignore[attr-defined]
        mean_along = along.mean(dim=(0, 2, 3), dtype=mean.dtype)
        product = (maps * along).mean(dim=(0, 2, 3), dtype=mean.dtype)
        shared = reciprocal * (product - mean * mean_along)
        scale = weight * reciprocal
        slope = reciprocal * (weight_along - scale * shared)
        shift = bias_along - scale * mean_along - slope * mean
        scale, slope, shift = (number.to(maps.dtype)[:, None, None] for number in (scale, slope, shift))
        return torch.addcmul(shift.expand_as(maps), along, scale).addcmul_(maps, slope), None, None


def moves(parameter: Tensor) -> bool:
    """Whether a forward-mode derivative, and no other, is taken along a parameter.

    False where a compiler traces the layer: what is compiled has no derivative of this kind.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return False
    return forward_ad.unpack_dual(parameter).tangent is not None  # type: ignore[no-untyped-call]
