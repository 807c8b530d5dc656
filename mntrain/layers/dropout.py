"""Dropout that does not depend on the number of processes.

Shapes: maps [B, C, H, W].
"""

import torch
from torch import Tensor
from torch.nn import functional

from mntrain.distributed import count_global_rows, process_rank


def dropout(maps: Tensor, share: float, training: bool) -> Tensor:
    """Zero a share of the elements while training and scale the others up, drawn for the global batch."""
    process = process_rank()
    if not training or process.world_size == 1:
        return functional.dropout(maps, share, training)
    shape = (count_global_rows(maps.shape[0]), *maps.shape[1:])
    layout = torch.channels_last if maps.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format
    ones = torch.empty(shape, dtype=maps.dtype, device=maps.device, memory_format=layout).fill_(1)
    return maps * process.rows(functional.dropout(ones, share, training))
