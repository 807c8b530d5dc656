"""The learned dictionary of induced neighbors (Meta-Neighborhoods, sections 2.1 and A.2).

Shapes: B queries, S entries, C classes, d features. keys [S, d], value logits [S, C], values [S, C].
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig


class Entries(NamedTuple):
    """The entries one forward pass sees: S' = S, or fewer under ``per_batch`` dropout."""

    keys: Tensor  # [S', d]
    values: Tensor  # [S', C], rows sum to 1
    keep: Tensor | None  # boolean [B, S'], or None where every entry counts


class Dictionary(nn.Module):
    """Key-value pairs (k_j, v_j), keys learned. Values are a softmax of free logits, or one class each for good.

    While training, a random part of the entries is dropped.

    Args:
        config: entries, their initial keys and values, and dropout.
        features: d.
        classes: C.
    """

    fixed_values: Tensor  # [S, C] one-hot, where values are not learned

    def __init__(self, config: MetaNeighborhoodsConfig, *, features: int, classes: int) -> None:
        super().__init__()
        entries = config.entries
        self.keys = nn.Parameter(initial_keys(config, features))
        self.learns_values = config.values == "learned"
        if self.learns_values:
            self.value_logits = nn.Parameter(torch.randn(entries, classes) * config.value_logit_std)
        else:
            chosen = one_hot(torch.randint(classes, (entries,)), classes)
            self.register_buffer("fixed_values", chosen.to(self.keys.dtype))
        self.dropout = config.entry_dropout

    @property
    def learned_values(self) -> nn.Parameter | None:
        """The free logits [S, C] of the values; None where they are fixed."""
        return self.value_logits if self.learns_values else None

    def values(self, positions: Tensor | None = None) -> Tensor:
        """v [S, C]: class probabilities of every entry, or of those at ``positions`` int64 [S']."""
        stored = self.value_logits if self.learns_values else self.fixed_values
        chosen = stored if positions is None else stored[positions]
        return torch.softmax(chosen, dim=-1) if self.learns_values else chosen

    def entries_for(self, batch: int) -> Entries:
        """The entries that ``batch`` queries see: all of them in eval mode, a random part while training."""
        if not self.training:
            return Entries(self.keys, self.values(), None)
        kept = self.dropout.draw(batch, self.keys.shape[0], self.keys.device)
        if kept.positions is None:
            return Entries(self.keys, self.values(), kept.mask)
        return Entries(self.keys[kept.positions], self.values(kept.positions), None)


def initial_keys(config: MetaNeighborhoodsConfig, features: int) -> Tensor:
    """New keys [S, d]."""
    if config.key_init == "uniform":
        return torch.empty(config.entries, features).uniform_(-config.key_range, config.key_range)
    return torch.randn(config.entries, features) * config.key_std
