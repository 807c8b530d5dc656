"""A frozen network: images in, features out, whatever it is made of.

Shapes: B images, C channels, H height, W width, d features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mntrain.heads.classifier import LinearClassifier
from mntrain.networks.pixels import NetworkInput
from mntrain.networks.record import NetworkRecord


@dataclass(frozen=True, kw_only=True, eq=False)
class TorchBody:
    """A network of PyTorch, in eval mode, without gradients.

    Args:
        module: input of the network → features [B, d].
    """

    module: nn.Module

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Input of the network → features float32 [B, d]."""
        with torch.inference_mode():
            features: torch.Tensor = self.module(inputs)
            return features.float()


@dataclass(frozen=True, kw_only=True, eq=False)
class OnnxBody:
    """A network in an ONNX file, run by ONNX Runtime.

    Args:
        file: the user's own file, which is never changed.
        input: name of its one input.
        output: name of the tensor that holds the features [B, d].
        run: input float32 → that tensor.
    """

    file: Path
    input: str
    output: str
    run: Callable[[NDArray[Any]], NDArray[Any]]

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Input of the network → features float32 [B, d]."""
        return torch.from_numpy(np.ascontiguousarray(self.run(inputs.numpy()), dtype=np.float32))


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenNetwork:
    """A network whose weights stay as they are.

    Args:
        record: what it is, and how images become its input.
        pixels: that way, as a module.
        body: input of the network → features.
        classifier: its own last layer on these features; None where it has none that is linear, or none is known.
        label_names: classes of that layer; None where they are not known.
    """

    record: NetworkRecord
    pixels: NetworkInput
    body: TorchBody | OnnxBody
    classifier: LinearClassifier | None = None
    label_names: tuple[str, ...] | None = None

    def embed(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Images uint8 [B, C, H, W] → features float32 [B, d]."""
        with torch.inference_mode():
            features: NDArray[np.float32] = self.body(self.pixels(torch.from_numpy(images))).numpy()
        return features
