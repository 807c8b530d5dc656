"""Bounds of coefficients, and the point within them that training starts at.

Shapes: F few classes, K neighbors. Coefficients [F, K + 1], the own one first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.heads.alpha.config import AlphaConfig

_INF = float("inf")
_OWN_SHARE, _NEIGHBOR_SHARE = 0.9, 1.2


@dataclass(frozen=True, kw_only=True, eq=False)
class CoefficientBounds:
    """Least and largest coefficient of each place.

    Args:
        lower: [K + 1].
        upper: [K + 1].
    """

    lower: Tensor
    upper: Tensor

    def clamp(self, raw: Tensor) -> Tensor:
        """Outputs of a network [F, K + 1] → coefficients within the bounds; outside there is no gradient."""
        return torch.clamp(raw, self.lower, self.upper)

    def share_at_bounds(self, coefficients: Tensor) -> float:
        """Return the share of coefficients on a finite bound, where a clamp may hold them."""
        return float(((coefficients <= self.lower) | (coefficients >= self.upper)).double().mean())


def coefficient_bounds(config: AlphaConfig, dtype: torch.dtype = torch.float32) -> CoefficientBounds:
    """Build the bounds that the settings name.

    The own coefficient lies in [0, γ], where the paper has 0 < α₀ ≤ γ. Bounds of neighbors, [(1−γ)/K, 1−γ], are
    inferred from table 3: at γ = 0.7 and K = 5 its values end at 0.06 and 0.30.
    """
    count, gamma = config.neighbors, config.gamma
    lower, upper = torch.full((count + 1,), -_INF, dtype=dtype), torch.full((count + 1,), _INF, dtype=dtype)
    if config.clamp != "none":
        lower[0], upper[0] = 0.0, gamma
    if config.clamp == "both":
        lower[1:], upper[1:] = (1 - gamma) / count, 1 - gamma
    return CoefficientBounds(lower=lower, upper=upper)


def inside_start(config: AlphaConfig, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the coefficients [K + 1] to start from: 0.9γ for the own classifier and 1.2(1−γ)/K for each neighbor.

    A single neighbor has but one value within its bounds, 1−γ.
    """
    rest = min(1.0, _NEIGHBOR_SHARE / config.neighbors) * (1 - config.gamma)
    start = torch.full((config.neighbors + 1,), rest, dtype=dtype)
    start[0] = _OWN_SHARE * config.gamma
    return start
