"""Full precision inside networks that are computed in 16 bits."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """Context without autocast on the device of ``tensor``.

    Norms and sums of squares, heads and inner updates need it. An inner update subtracts nearly equal numbers and its
    step is small beside the weights: eight bits of mantissa would round it away. What takes most of the time, the
    convolutions of the backbone, stays in the lower precision.
    """
    device = "cpu" if tensor.is_meta else tensor.device.type  # autocast knows no meta device
    return torch.autocast(device, enabled=False)


def widened(tensor: Tensor) -> Tensor:
    """Bring 16-bit floats to float32; wider ones stay."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
