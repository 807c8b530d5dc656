"""Estimates of a regressor for some rows of a split, before and after adaptation.

Shapes: N rows, F features, S entries, T targets. All values are of standardised targets.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mntrain.analysis.observation import sample
from mntrain.data.tables import TableSet
from mntrain.models.base import Estimate, Model
from mntrain.models.neighbors import HasNeighbors

_ROWS = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates of rows beside their targets.

    Args:
        total: rows in the whole split.
        targets: [N] of one target, [N, T] of several.
        values: as ``targets``.
        unadapted: as ``targets``, of the same network before its inner update; None where the family does not adapt.
        attention: ω [N, S]; None where there are no entries.
    """

    total: int
    targets: Tensor
    values: Tensor
    unadapted: Tensor | None
    attention: Tensor | None

    def by_target(self) -> "tuple[Estimates, ...]":
        """Split the estimates of several targets into those of each; of one target they are as they are."""
        if self.targets.dim() == 1:
            return (self,)
        return tuple(
            replace(
                self,
                targets=self.targets[:, position],
                values=self.values[:, position],
                unadapted=None if self.unadapted is None else self.unadapted[:, position],
            )
            for position in range(self.targets.shape[1])
        )


@torch.inference_mode()
def estimate(model: Model, preprocessing: nn.Module, rows: TableSet, limit: int) -> Estimates:
    """Estimate at most ``limit`` rows, whose targets are standardised, by a model in eval mode."""
    chosen = sample(rows, limit)[1]
    values, unadapted, weights = [], [], []
    for start in range(0, len(chosen), _ROWS):
        inputs = preprocessing(torch.from_numpy(chosen.inputs[start : start + _ROWS]))
        estimate_of_batch = model(inputs)
        assert isinstance(estimate_of_batch, Estimate)
        values.append(estimate_of_batch.values)
        if estimate_of_batch.unadapted_values is not None:
            unadapted.append(estimate_of_batch.unadapted_values)
        if isinstance(model, HasNeighbors):
            weights.append(model.attention_over_all(model.queries(inputs)))
    return Estimates(
        total=len(rows),
        targets=torch.from_numpy(chosen.targets),
        values=torch.cat(values),
        unadapted=torch.cat(unadapted) if unadapted else None,
        attention=torch.cat(weights) if weights else None,
    )
