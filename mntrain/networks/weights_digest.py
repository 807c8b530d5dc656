"""Digest of the weights of a network in memory."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def weights_digest(module: nn.Module) -> str:
    """Compute the SHA-256 over names, shapes, types and values of all parameters and buffers, sorted by name."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        array = value.detach().cpu().contiguous()
        digest.update(f"{name} {list(array.shape)} {array.dtype}\n".encode())
        digest.update(array.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
