"""The learned dictionary of induced neighbours (Meta-Neighborhoods, sections 2.1 and A.2).

Shapes: B queries, S entries, C classes, d features. keys [S, d], value logits [S, C], values [S, C].
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

DropoutMode = Literal["per_sample", "per_batch"]


class Entries(NamedTuple):
    """The entries one forward pass sees: S' = S, or fewer under ``per_batch`` dropout."""

    keys: Tensor  # [S', d]
    values: Tensor  # [S', C], rows sum to 1
    keep: Tensor | None  # boolean [B, S'], or None where every entry counts


class Dictionary(nn.Module):
    """Key-value pairs (k_j, v_j), both learned; values are a softmax of free logits.

    While training, half of the entries (``dropout``) is dropped at random, so that no few entries take all the
    gradient. ``per_sample`` draws a mask for every query, as the authors' code does; ``per_batch`` gathers one
    random subset for the whole batch, which also shrinks every matrix product.
    """

    def __init__(
        self,
        *,
        entries: int,
        features: int,
        classes: int,
        key_std: float,
        value_logit_std: float,
        dropout: float,
        dropout_mode: DropoutMode,
    ) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(entries, features) * key_std)
        self.value_logits = nn.Parameter(torch.randn(entries, classes) * value_logit_std)
        self.dropout = dropout
        self.dropout_mode: DropoutMode = dropout_mode

    def values(self) -> Tensor:
        """v [S, C]: class probabilities of every entry."""
        return torch.softmax(self.value_logits, dim=-1)

    def entries_for(self, batch: int) -> Entries:
        """The entries that ``batch`` queries see: all of them in eval mode, a random part while training."""
        if not self.training or self.dropout == 0:
            return Entries(self.keys, self.values(), None)
        total, device = self.keys.shape[0], self.keys.device
        if self.dropout_mode == "per_batch":
            kept = max(1, round(total * (1 - self.dropout)))
            index = torch.randperm(total, device=device)[:kept]
            return Entries(self.keys[index], torch.softmax(self.value_logits[index], dim=-1), None)
        keep = torch.rand(batch, total, device=device) >= self.dropout
        # A query that lost every entry would have no neighbourhood at all: it sees them all instead.
        keep = keep | ~keep.any(dim=-1, keepdim=True)
        return Entries(self.keys, self.values(), keep)
