"""Cosine of features to the prototype of their own class, before and after the inner update (Fig. 4).

Shapes: N images, B batch, C classes, d features. features z [N, d], weights w [C, d], adapted weights w' [B, C, d].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.analysis.observation import batch_size
from mntrain.layers.attention import unit
from mntrain.models.neighbors import NeighborClassifier


@dataclass(frozen=True, kw_only=True, eq=False)
class PrototypeCosines:
    """Cosines cos(z, w_y) and cos(z, w'_y) of the true class y.

    Args:
        before, after: [N].
    """

    before: Tensor
    after: Tensor

    @property
    def share_closer(self) -> float:
        """Share of images that the update brings closer to their prototype."""
        return float((self.after > self.before).to(torch.float64).mean())


@torch.inference_mode()
def prototype_cosines(model: NeighborClassifier, features: Tensor, labels: Tensor) -> PrototypeCosines | None:
    """Compute the cosines to the true prototype; None for a head that has no prototypes.

    Args:
        features: z [N, d].
        labels: y, int64 [N].
    """
    before, after = [], []
    size = batch_size(model)
    for start in range(0, len(labels), size):
        z, y = features[start : start + size], labels[start : start + size]
        prototypes = model.prototypes(z)
        if prototypes is None:
            return None
        before.append((unit(z) * prototypes.unadapted[y]).sum(dim=-1))
        after.append((unit(z) * prototypes.adapted[torch.arange(len(y)), y]).sum(dim=-1))
    return PrototypeCosines(before=torch.cat(before), after=torch.cat(after))
