"""Data-parallel runs that equal a run of one process: random draws and averages cover the global batch.

Process r of w holds rows r, r + w, r + 2w … of the global batch, as many as every other process. Draws are made for the
whole global batch, from generators in the same state in every process, and each process keeps its rows. So image i gets
the numbers that it would get in a run of one process.

Shapes: B rows of this process, w·B rows of the global batch.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed import all_reduce


class ProcessRank(NamedTuple):
    """Rank of this process among all processes of a run."""

    rank: int
    world_size: int

    def rows(self, global_batch: Tensor) -> Tensor:
        """Select the rows [B, …] of this process from a global batch [w·B, …]."""
        return global_batch if self.world_size == 1 else global_batch[self.rank :: self.world_size]


def process_rank() -> ProcessRank:
    """Rank of this process and number of processes; (0, 1) outside a data-parallel run."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return ProcessRank(0, 1)
    return ProcessRank(torch.distributed.get_rank(), torch.distributed.get_world_size())


def uniform_rows(rows: int, width: int, device: torch.device) -> Tensor:
    """Draw uniform numbers in [0, 1) for this process's rows [B, width]."""
    process = process_rank()
    return process.rows(torch.rand(rows * process.world_size, width, device=device))


def mean_over_processes(value: Tensor) -> Tensor:
    """Mean of a tensor over all processes; gradients flow back to every process."""
    mean: Tensor = _Sum.apply(value) / process_rank().world_size  # type: ignore[no-untyped-call]
    return mean


class _Sum(torch.autograd.Function):
    """Sum over processes. Each process uses the sum, so its gradient is the sum of the gradients of all."""

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
