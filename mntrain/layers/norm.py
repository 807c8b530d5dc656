"""Batch normalisation of every backbone, with iFiLM behind it on request.

Shapes: maps x and their tangent ẋ [B, C, H, W]; weight w, bias b, their tangents, mean m and reciprocal standard
deviation r: [C].
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx

from mntrain.distributed import process_rank, sum_over_processes
from mntrain.layers.ifilm import IFiLM
from mntrain.random_draws import forked_generator

NormFactory = Callable[[int], nn.Module]
"""Makes the normalisation of C channels."""
_EPSILON = 1e-3


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation by the statistics of the global batch, on any device.

    PyTorch's own synchronised layer runs on GPUs only. In a run of one process, and in evaluation, this is the plain
    layer; weights and buffers are the same in all cases. A pass of forward mode leaves the running statistics alone.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps [B, C, H, W] → normalised maps of the same shape."""
        processes = process_rank().world_size
        if self.training and processes == 1 and _has_forward_tangent(self.weight):
            normalised: Tensor = _DirectionalBatchNorm.apply(input, self.weight, self.bias, self.eps)[0]  # type: ignore[no-untyped-call]
            return normalised
        if not self.training or processes == 1:
            return super().forward(input)
        maps = input.to(self.weight.dtype)
        # Shares may be uneven, so the number of values is summed up with them.
        own = maps.new_full((1,), maps.numel() // maps.shape[1])
        totals = sum_over_processes(torch.cat([maps.sum(dim=(0, 2, 3)), own]))
        count = totals[-1].detach()
        mean = totals[:-1] / count
        centred = maps - mean[:, None, None]
        variance = sum_over_processes(centred.square().sum(dim=(0, 2, 3))) / count
        with torch.no_grad():
            self._track(mean, variance * (count / (count - 1)))
        factor = self.weight * torch.rsqrt(variance + self.eps)
        return (centred * factor[:, None, None] + self.bias[:, None, None]).to(input.dtype)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)


class _DirectionalBatchNorm(torch.autograd.Function):
    """Batch normalisation by the statistics of the batch, with a forward-mode derivative in a few passes over the maps.

    With x̂ = r (x − m) the tangent of w x̂ + b is w r (ẋ − mean ẋ − x̂ mean(x̂ ẋ)) + ẇ x̂ + ḃ: for every channel a number
    times ẋ, a number times x, and a number. PyTorch's own derivative forms each term as a map of its own. A derivative
    in reverse mode does not exist: the layer is used only where no gradient is recorded.
    """

    @staticmethod
    def forward(maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
        """Maps [B, C, H, W] → normalised maps, m and r."""
        normalised, mean, reciprocal = torch.native_batch_norm(maps, weight, bias, None, None, True, 0.0, epsilon)
        return normalised, mean, reciprocal

    @staticmethod
    def setup_context(
        ctx: FunctionCtx, inputs: tuple[Tensor, Tensor, Tensor, float], output: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        """Keep what the derivative needs."""
        _, mean, reciprocal = output
        ctx.mark_non_differentiable(mean, reciprocal)
        ctx.save_for_forward(inputs[0], inputs[1], mean, reciprocal)

    @staticmethod
    def jvp(
        ctx: FunctionCtx, along: Tensor, weight_along: Tensor, bias_along: Tensor, _: None
    ) -> tuple[Tensor, None, None]:
        """Tangent of the normalised maps, in their dtype; sums and numbers of channels are float32."""
        maps, weight, mean, reciprocal = ctx.saved_tensors  # type: ignore[attr-defined]
        mean_along = along.mean(dim=(0, 2, 3), dtype=mean.dtype)
        product = (maps * along).mean(dim=(0, 2, 3), dtype=mean.dtype)
        shared = reciprocal * (product - mean * mean_along)
        scale = weight * reciprocal
        slope = reciprocal * (weight_along - scale * shared)
        shift = bias_along - scale * mean_along - slope * mean
        scale, slope, shift = (number.to(maps.dtype)[:, None, None] for number in (scale, slope, shift))
        return torch.addcmul(shift.expand_as(maps), along, scale).addcmul_(maps, slope), None, None


def _has_forward_tangent(parameter: Tensor) -> bool:
    """True where a forward-mode derivative, and no gradient, is taken along a parameter.

    False where a compiler traces the layer: compiled code has no derivative of this kind.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return False
    return forward_ad.unpack_dual(parameter).tangent is not None  # type: ignore[no-untyped-call]


def batch_norm(channels: int) -> nn.Module:
    """Build batch normalisation of C channels, with the authors' epsilon."""
    return GlobalBatchNorm2d(channels, eps=_EPSILON)


def ifilm_norm(entries: int) -> NormFactory:
    """Make a factory of batch normalisations followed by iFiLM with S_l ``entries``.

    The normalisation keeps its affine. Keys are drawn aside, so that everything else of a network starts as it does
    without iFiLM.
    """

    generator = forked_generator()

    def make(channels: int) -> nn.Module:
        return nn.Sequential(batch_norm(channels), IFiLM(channels, entries, generator=generator))

    return make
