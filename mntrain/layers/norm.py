"""Batch normalisation as every backbone here uses it, with iFiLM behind it where it is asked for.

Shapes: maps [B, C, H, W].
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mntrain.distributed import mean_over_processes, process_rank
from mntrain.layers.directional_norm import DirectionalBatchNorm, moves
from mntrain.layers.ifilm import IFiLM

NormFactory = Callable[[int], nn.Module]
_EPSILON = 1e-3


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """Batch normalisation by the statistics of the global batch, on any device.

    PyTorch's own synchronised layer runs on GPUs only. In a run of one process, and in evaluation, this is the plain
    layer; weights and buffers are the same in all cases. A pass of forward mode leaves the running statistics alone.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps [B, C, H, W] → normalised maps of the same shape."""
        processes = process_rank().world_size
        if self.training and processes == 1 and moves(self.weight):
            normalised: Tensor = DirectionalBatchNorm.apply(input, self.weight, self.bias, self.eps)[0]  # type: ignore[no-untyped-call]
            return normalised
        if not self.training or processes == 1:
            return super().forward(input)
        maps = input.to(self.weight.dtype)
        mean = mean_over_processes(maps.mean(dim=(0, 2, 3)))
        centred = maps - mean[:, None, None]
        variance = mean_over_processes(centred.square().mean(dim=(0, 2, 3)))
        count = processes * maps.numel() // maps.shape[1]
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


def batch_norm(channels: int) -> nn.Module:
    """Batch normalisation of C channels, with the authors' epsilon."""
    return GlobalBatchNorm2d(channels, eps=_EPSILON)


def ifilm_norm(entries: int) -> NormFactory:
    """A factory of batch normalisations followed by iFiLM with S_l ``entries``; the normalisation keeps its affine."""

    def make(channels: int) -> nn.Module:
        return nn.Sequential(batch_norm(channels), IFiLM(channels, entries))

    return make
