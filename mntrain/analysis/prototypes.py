"""How close features are to the prototype of their own class, before and after the inner update (Fig. 4).

Shapes: N images, B batch, C classes, d features. features z [N, d], weights w [C, d], adapted weights w' [B, C, d].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.analysis.observation import batch_size
from mntrain.layers.cosine_head import CosineHead
from mntrain.layers.unit import unit
from mntrain.models.meta_neighborhoods.inner import adapted_weight, cosine_problem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


@dataclass(frozen=True, kw_only=True, eq=False)
class PrototypeCosines:
    """cos(z, w_y) and cos(z, w'_y) of the true class y.

    Args:
        before, after: [N].
    """

    before: Tensor
    after: Tensor

    @property
    def share_closer(self) -> float:
        """Share of images that the update brings closer: those above the diagonal."""
        return float((self.after > self.before).to(torch.float64).mean())


@torch.inference_mode()
def prototype_cosines(model: MetaNeighborhoods, features: Tensor, labels: Tensor) -> PrototypeCosines | None:
    """Cosines to the true prototype; None for a head that has no prototypes.

    Args:
        features: z [N, d].
        labels: y, int64 [N].
    """
    head = model.head
    if not isinstance(head, CosineHead):
        return None
    problem = cosine_problem(model.dictionary.keys, model.dictionary.values(), head.weight, head.scale)
    before, after = [], []
    size = batch_size(model)
    for start in range(0, len(labels), size):
        z, y = features[start : start + size], labels[start : start + size]
        adapted = adapted_weight(model.attention_over_all(z), problem, head.weight, model.step_size, model.step_count)
        mine = adapted[torch.arange(len(y)), y]
        before.append((unit(z) * problem.prototypes[y]).sum(dim=-1))
        after.append((unit(z) * unit(mine)).sum(dim=-1))
    return PrototypeCosines(before=torch.cat(before), after=torch.cat(after))
