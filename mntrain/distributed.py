"""A data-parallel run as one: what is random or averaged over a batch is so over the batch of all processes.

Process r of w holds rows r, r + w, r + 2w … of the global batch, as many as every other. Whoever draws for a batch
draws for all of it, from generators that stand alike in every process, and keeps its rows: image i gets what it would
have got in a run of one process.

Shapes: B rows of this process, w·B rows of the global batch.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed import all_reduce


class ProcessRank(NamedTuple):
    """Where this process stands."""

    rank: int
    world_size: int

    def rows(self, everyone: Tensor) -> Tensor:
        """This process's rows [B, …] of a global batch [w·B, …]."""
        return everyone if self.world_size == 1 else everyone[self.rank :: self.world_size]


def process_rank() -> ProcessRank:
    """The place of this process; (0, 1) outside a data-parallel run."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return ProcessRank(0, 1)
    return ProcessRank(torch.distributed.get_rank(), torch.distributed.get_world_size())


def uniform_rows(rows: int, width: int, device: torch.device) -> Tensor:
    """Uniform numbers in [0, 1) for this process's rows [B, width]."""
    here = process_rank()
    return here.rows(torch.rand(rows * here.world_size, width, device=device))


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean of a tensor over all processes; gradients flow back to every one of them."""
    mean: Tensor = _Sum.apply(value) / process_rank().world_size  # type: ignore[no-untyped-call]
    return mean


class _Sum(torch.autograd.Function):
    """A sum over processes. Each of them used it, so the gradient is the sum over all of theirs."""

    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        total = value.clone()
        all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone()
        all_reduce(total)
        return total
