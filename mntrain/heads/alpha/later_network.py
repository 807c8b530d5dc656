"""Network of the later public version of Alpha Net: shared, deeper, with coefficients of either sign.

Shapes: F few classes, D inputs, h hidden units, K neighbors.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

_LEAST_NORM = 1e-12


class LaterNetwork(nn.Module):
    """Three hidden layers with leaky ReLUs for all few classes, D → h → h → h → K.

    Args:
        inputs: classifiers of each composition, [F, D].
        hidden: h.
        neighbors: K.
        generator: source of draws.
    """

    inputs: Tensor

    def __init__(self, inputs: Tensor, hidden: int, neighbors: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("inputs", inputs)
        widths = (inputs.shape[1], hidden, hidden, hidden, neighbors)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layer = nn.Linear(before, after, dtype=inputs.dtype, device="meta").to_empty(device="cpu")
            bound = before**-0.5
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
            layers += [layer, nn.LeakyReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self) -> Tensor:
        """Compute coefficients [F, K + 1]: 1 for the own classifier, and magnitudes that sum to 1 for the others."""
        raw = self.layers(self.inputs)
        shares = nn.functional.normalize(raw, p=1, dim=1, eps=_LEAST_NORM)
        return torch.cat([torch.ones_like(shares[:, :1]), shares], dim=1)
