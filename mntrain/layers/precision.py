"""Where mixed precision stops: heads and inner updates are computed in the precision of their parameters."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def full_precision(tensor: Tensor) -> AbstractContextManager[object]:
    """A context without autocast on the device of ``tensor``.

    The inner update subtracts nearly equal numbers and its step is small beside the weights: eight bits of mantissa
    would round it away. The backbone, where the time goes, stays in the lower precision.
    """
    return torch.autocast(tensor.device.type, enabled=False)
