"""How far adaptation moves weights and answers, and how much of the dictionary takes part in it.

Shapes: N queries, B of a batch, S entries, C classes, d features, T targets. queries z [N, d], attention ω [B, S].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.models.base import Regressor
from mntrain.models.neighbors import HasNeighbors, NeighborClassifier
from mntrain.models.queries import mean_weight_change, query_batches


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Effect of adaptation on a sample of queries.

    Args:
        examples: N.
        weight_change: mean relative change ‖w' − w‖ / ‖w‖ of the adapted weights.
        answer_change: share of answers that change class; of values, the root mean square change in deviations of the
            target.
        effective_entries: mean of exp(entropy of ω): 1 where one entry takes all, S where all get the same.
    """

    examples: int
    weight_change: float
    answer_change: float
    effective_entries: float


@torch.inference_mode()
def effect_on(model: HasNeighbors, queries: Tensor) -> Effect:
    """Measure the effect on queries z [N, d]."""
    parts = query_batches(model, queries)
    changed = torch.cat([_answer_change(model, part) for part in parts])
    effective = torch.cat([effective_entries(model.attention_over_all(part)) for part in parts])
    classifies = isinstance(model, NeighborClassifier)
    return Effect(
        examples=len(queries),
        weight_change=mean_weight_change(model, queries),
        answer_change=float(changed.double().mean() if classifies else changed.double().mean().sqrt()),
        effective_entries=float(effective.double().mean()),
    )


def effective_entries(attention: Tensor) -> Tensor:
    """Effective number [B] of entries, exp(entropy of ω): of attention [B, S]."""
    effective: Tensor = torch.special.entr(attention).sum(dim=-1).exp()
    return effective


@torch.inference_mode()
def value_share(model: NeighborClassifier) -> float:
    """Mean over entries of the largest share of their values: 1 / C where they are uniform, 1 where they are sure."""
    return float(model.entry_values().max(dim=-1).values.double().mean())


def _answer_change(model: HasNeighbors, queries: Tensor) -> Tensor:
    """1 where the class changes, else 0; of values the squared change, averaged over targets: [B]."""
    if isinstance(model, NeighborClassifier):
        prediction = model.classify(queries)
        assert prediction.unadapted_logits is not None
        return (prediction.logits.argmax(dim=-1) != prediction.unadapted_logits.argmax(dim=-1)).double()
    assert isinstance(model, Regressor)
    estimate = model(queries)  # the queries of a regressor are its inputs
    changes: Tensor = (estimate.values - estimate.unadapted_values).double().square()
    return changes.reshape(len(queries), -1).mean(dim=-1)
