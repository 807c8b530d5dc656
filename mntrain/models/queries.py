"""Queries of stored examples, in batches of bounded memory.

Shapes: N examples, B batch, S entries, C classes, d features. queries [N, d].
"""

import torch
from torch import Tensor, nn

from mntrain.data.examples import Examples, IndexArray
from mntrain.models.neighbors import HasNeighbors

_BATCH_ELEMENTS = 20_000_000  # of the largest intermediate, [B, C, S] or [B, C, d]: 80 MB
MAX_BATCH = 250
_SAMPLE = 256


@torch.inference_mode()
def model_queries(model: HasNeighbors, preprocessing: nn.Module, examples: Examples, chosen: IndexArray) -> Tensor:
    """Compute queries z [N, d] of the examples at ``chosen`` int64 [N]."""
    device = next(preprocessing.buffers()).device
    parts = [chosen[start : start + MAX_BATCH] for start in range(0, len(chosen), MAX_BATCH)]
    return torch.cat(
        [model.queries(preprocessing(torch.from_numpy(examples.inputs[part]).to(device))) for part in parts]
    )


def query_batches(model: HasNeighbors, queries: Tensor) -> tuple[Tensor, ...]:
    """Split queries z [N, d] into batches whose weights of their own fit into 80 MB."""
    keys, values = model.entry_keys(), model.entry_values()
    width = max(keys.shape[1], len(keys)) * max(64, values[0].numel())
    return torch.split(queries, max(1, min(MAX_BATCH, _BATCH_ELEMENTS // width)))


@torch.inference_mode()
def mean_weight_change(model: HasNeighbors, queries: Tensor) -> float:
    """Mean over queries z [N, d] of the relative change ‖w' − w‖ / ‖w‖ of the adapted weights."""
    moved = torch.cat([model.weight_change(part) for part in query_batches(model, queries)])
    return float(moved.double().mean())


def spread_queries(queries: Tensor) -> Tensor:
    """Select at most 256 of the queries z [N, d], spread over all of them."""
    return queries[torch.linspace(0, len(queries) - 1, min(_SAMPLE, len(queries))).long()]
