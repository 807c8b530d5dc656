"""The learned dictionary of induced neighbours (Meta-Neighborhoods, sections 2.1 and A.2).

Shapes: B queries, S entries, C classes, d features. keys [S, d], value logits [S, C], values [S, C].
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mntrain.models.meta_neighborhoods.entry_dropout import EntryDropout


class Entries(NamedTuple):
    """The entries one forward pass sees: S' = S, or fewer under ``per_batch`` dropout."""

    keys: Tensor  # [S', d]
    values: Tensor  # [S', C], rows sum to 1
    keep: Tensor | None  # boolean [B, S'], or None where every entry counts


class Dictionary(nn.Module):
    """Key-value pairs (k_j, v_j), both learned; values are a softmax of free logits.

    While training, a random part of the entries is dropped.
    """

    def __init__(
        self,
        *,
        entries: int,
        features: int,
        classes: int,
        key_std: float,
        value_logit_std: float,
        dropout: EntryDropout,
    ) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(entries, features) * key_std)
        self.value_logits = nn.Parameter(torch.randn(entries, classes) * value_logit_std)
        self.dropout = dropout

    def values(self) -> Tensor:
        """v [S, C]: class probabilities of every entry."""
        return torch.softmax(self.value_logits, dim=-1)

    def entries_for(self, batch: int) -> Entries:
        """The entries that ``batch`` queries see: all of them in eval mode, a random part while training."""
        if not self.training:
            return Entries(self.keys, self.values(), None)
        kept = self.dropout.draw(batch, self.keys.shape[0], self.keys.device)
        if kept.positions is None:
            return Entries(self.keys, self.values(), kept.mask)
        return Entries(self.keys[kept.positions], torch.softmax(self.value_logits[kept.positions], dim=-1), None)
