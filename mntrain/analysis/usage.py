"""Use of the entries of the dictionary.

Shapes: N queries, S entries. attention ω [N, S].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.acting.effect import effective_entries

_TOP = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Usage:
    """Distribution of the attention of many queries over the entries.

    Args:
        effective: exp of the entropy of ω, for every query [N]: 1 if one entry takes all, S if all get the same.
        mass: attention of every entry over all queries [S], largest first; sums to 1.
        never_top: number of entries that are among the ten largest of no query.
        largest: mean over queries of the largest weight.
    """

    effective: Tensor
    mass: Tensor
    never_top: int
    largest: float


def usage(weights: Tensor) -> Usage:
    """Measure the use of entries by ω [N, S]."""
    top = weights.topk(min(_TOP, weights.shape[1]), dim=-1).indices
    return Usage(
        effective=effective_entries(weights),
        mass=weights.mean(dim=0).sort(descending=True).values,
        never_top=weights.shape[1] - len(torch.unique(top)),
        largest=float(weights.max(dim=-1).values.mean()),
    )
