"""Queries in batches so small that no intermediate of the inner update grows too large.

Shapes: N queries, B of a batch, S entries, C classes, d features. queries z [N, d].
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mntrain.data.examples import Examples, IndexArray
from mntrain.models.neighbors import HasNeighbors

_BATCH_ELEMENTS = 20_000_000  # of the largest intermediate, [B, C, S] or [B, C, d]: 80 MB
_MAX_BATCH = 250


def batches(model: HasNeighbors, queries: Tensor) -> Sequence[Tensor]:
    """Split queries z [N, d] into batches [B, d] whose updated weights, or weighed entries, fit in 80 MB."""
    entries, features = model.entry_keys().shape
    width = max(features, entries) * max(64, model.entry_values()[0].numel())
    return torch.split(queries, max(1, min(_MAX_BATCH, _BATCH_ELEMENTS // width)))


@torch.inference_mode()
def model_queries(model: HasNeighbors, preprocessing: nn.Module, examples: Examples, chosen: IndexArray) -> Tensor:
    """Compute queries z [N, d] of the examples at ``chosen`` int64 [N]."""
    device = next(preprocessing.buffers()).device
    parts = [chosen[start : start + _MAX_BATCH] for start in range(0, len(chosen), _MAX_BATCH)]
    return torch.cat(
        [model.queries(preprocessing(torch.from_numpy(examples.inputs[part]).to(device))) for part in parts]
    )
