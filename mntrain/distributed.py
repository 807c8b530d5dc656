"""Data-parallel runs that equal a run of one process: random draws and averages cover the global batch.

Process r of w holds rows r, r + w, r + 2w … of the global batch: as many as every other process, or one more or less.
Draws are made for the whole global batch, from generators in the same state in every process, and each process keeps
its rows. So image i gets the numbers that it would get in a run of one process.

Shapes: B rows of this process, G rows of the global batch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed import all_reduce


class ProcessRank(NamedTuple):
    """Rank of this process among all processes of a run."""

    rank: int
    world_size: int

    def rows(self, global_batch: Tensor) -> Tensor:
        """Select the rows [B, …] of this process from a global batch [G, …]."""
        return global_batch if self.world_size == 1 else global_batch[self.rank :: self.world_size]


def process_rank() -> ProcessRank:
    """Rank of this process and number of processes; (0, 1) outside a data-parallel run."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return ProcessRank(0, 1)
    return ProcessRank(torch.distributed.get_rank(), torch.distributed.get_world_size())


@contextmanager
def global_rows(count: int) -> Iterator[None]:
    """Tell that the rows of this process are its share of ``count`` rows, for the block.

    Shares are uneven where the count is no multiple of the processes. Without a block every process holds as many.
    """
    token = _GLOBAL_ROWS.set(count)
    try:
        yield
    finally:
        _GLOBAL_ROWS.reset(token)


_GLOBAL_ROWS: ContextVar[int | None] = ContextVar("global_rows", default=None)


def count_global_rows(rows: int) -> int:
    """Count the rows of all processes together, of which this one holds ``rows``."""
    known = _GLOBAL_ROWS.get()
    return rows * process_rank().world_size if known is None else known


def uniform_rows(rows: int, width: int, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """Draw uniform numbers in [0, 1) for this process's rows [B, width].

    Args:
        rows: B.
        width: numbers of a row.
        device: of the numbers, and of the generator.
        generator: drawn from, in the same state in every process; None for the global one.
    """
    return process_rank().rows(torch.rand(count_global_rows(rows), width, device=device, generator=generator))


def sum_over_processes(value: Tensor) -> Tensor:
    """Sum of a tensor over all processes; gradients flow back to every process."""
    total: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]
    return total


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
