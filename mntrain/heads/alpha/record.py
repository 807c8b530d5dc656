"""Record of a composition, as plain values for a file.

Shapes: F few classes, K neighbors.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.neighbors import ClassNeighbors
from mntrain.heads.alpha.training import AlphaEpoch


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaRecord:
    """What was composed of what.

    Args:
        config: settings, with all values filled in.
        seed: of the draws.
        label_names: of all classes.
        neighbors: few classes, their nearest classes and distances.
        coefficients: float64 [F, K + 1], the own one first.
        curve: course of the training.
    """

    config: AlphaConfig
    seed: int
    label_names: tuple[str, ...]
    neighbors: ClassNeighbors
    coefficients: NDArray[np.float64]
    curve: tuple[AlphaEpoch, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: settings, one entry for each few class, and the curve."""
        near = self.neighbors
        return {
            "settings": asdict(self.config),
            "seed": self.seed,
            "compositions": [
                {
                    "class": int(own),
                    "name": self.label_names[own],
                    "coefficient": float(shares[0]),
                    "neighbors": [
                        {
                            "class": int(other),
                            "name": self.label_names[other],
                            "distance": float(distance),
                            "coefficient": float(share),
                        }
                        for other, distance, share in zip(classes, distances, shares[1:], strict=True)
                    ],
                }
                for own, classes, distances, shares in zip(
                    near.few, near.classes, near.distances, self.coefficients, strict=True
                )
            ],
            "curve": [asdict(epoch) for epoch in self.curve],
        }
