"""Random subsets of a dictionary while training (Meta-Neighborhoods, section A.2).

Shapes: B queries, S entries.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mntrain.distributed import uniform_rows

DropoutMode = Literal["per_sample", "per_batch"]


class Kept(NamedTuple):
    """The entries one forward pass sees."""

    positions: Tensor | None  # int64 [S'] of the entries that all queries see, or None for all S
    mask: Tensor | None  # boolean [B, S], or None where every query sees the same


@dataclass(frozen=True, kw_only=True)
class EntryDropout:
    """Drops a share of the entries, so that no few of them take all the gradient.

    ``per_sample`` draws a mask for every query, as the authors' code does; ``per_batch`` gathers one random subset for
    the whole batch, which also shrinks every matrix product.

    Args:
        share: of the entries that is dropped, from 0 to below 1.
        mode: per_sample or per_batch.
    """

    share: float
    mode: DropoutMode

    def draw(self, batch: int, total: int, device: torch.device) -> Kept:
        """A new subset of ``total`` entries for ``batch`` queries."""
        if self.share == 0:
            return Kept(None, None)
        if self.mode == "per_batch":
            count = max(1, round(total * (1 - self.share)))
            return Kept(torch.randperm(total, device=device)[:count], None)
        keep = uniform_rows(batch, total, device) >= self.share
        # A query that lost every entry would have no neighborhood at all: it sees them all instead.
        return Kept(None, keep | ~keep.any(dim=-1, keepdim=True))
