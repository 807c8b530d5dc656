"""Standardisation of rows, and of targets that are values.

Shapes: B batch, F features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mntrain.data.tables import RowArray, TableSet
from mntrain.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class StandardizationConfig:
    """Standardisation (value - mean) / std of every column of the inputs, and of targets that are values.

    Raises:
        ConfigError: ``mean`` and ``std`` differ in length, are empty or not finite, or a std is not above 0.
    """

    mean: tuple[float, ...]
    """Subtracted from each column; in the column's own units."""
    std: tuple[float, ...]
    """Each column is divided by it; in the column's own units, above 0."""
    target_mean: float = 0.0
    """Subtracted from targets that are values; in the target's own units."""
    target_std: float = 1.0
    """Targets that are values are divided by it; in the target's own units, above 0."""

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std):
            raise ConfigError(
                f"standardization.mean has {len(self.mean)} value(s) and standardization.std {len(self.std)}; both "
                "need one value for each column."
            )
        if not all(math.isfinite(value) for value in (*self.mean, self.target_mean)):
            raise ConfigError(
                f"standardization.mean is {self.mean} and target_mean {self.target_mean}; every value must be finite."
            )
        if not all(math.isfinite(value) and value > 0 for value in (*self.std, self.target_std)):
            raise ConfigError(
                f"standardization.std is {self.std} and target_std {self.target_std}; every value must be finite and "
                "above 0."
            )

    @classmethod
    def identity(cls, features: int) -> StandardizationConfig:
        """Make the configuration that leaves rows and targets as they are."""
        return cls(mean=(0.0,) * features, std=(1.0,) * features)

    @classmethod
    def from_rows(cls, rows: TableSet) -> StandardizationConfig:
        """Make the configuration from mean and deviation of each column of ``rows``, and of targets that are values.

        A column (or target) of one value gets std 1.
        """
        inputs = rows.inputs.astype(np.float64)
        values = rows.targets.astype(np.float64) if rows.targets.dtype == np.float32 else np.array([0.0])
        mean, std = inputs.mean(axis=0), inputs.std(axis=0)
        return cls(
            mean=tuple(mean.tolist()),
            std=tuple(np.where(std > _least(mean), std, 1.0).tolist()),
            target_mean=float(values.mean()),
            target_std=float(values.std()) if values.std() > _least(values.mean()) else 1.0,
        )

    def targets(self, rows: TableSet) -> TableSet:
        """Standardise the targets of ``rows`` if they are values; rows with labels are returned as they are."""
        if rows.targets.dtype != np.float32:
            return rows
        values = (rows.targets.astype(np.float64) - self.target_mean) / self.target_std
        return TableSet(inputs=rows.inputs, targets=values.astype(np.float32))

    def inputs(self, rows: RowArray) -> RowArray:
        """Standardise ``rows`` [N, F] as :class:`Standardization` does, for methods that are no networks."""
        with torch.inference_mode():
            standardised: RowArray = Standardization(self)(torch.from_numpy(rows)).numpy()
        return standardised


class Standardization(nn.Module):
    """Standardises float32 rows [B, F].

    Buffers, float32 [F] each: ``mean`` and ``scale`` = 1 / std. The buffers follow from the configuration, so none is
    in the state dict. The mean is subtracted first: in one multiply-add, a column far from 0 would lose its digits.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, config: StandardizationConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.tensor(config.mean, dtype=torch.float64).float(), persistent=False)
        std = torch.tensor(config.std, dtype=torch.float64)
        self.register_buffer("scale", (1.0 / std).float(), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Standardise ``rows`` float32 [B, F] to float32 [B, F].

        Raises:
            TypeError: another dtype.
        """
        if rows.dtype != torch.float32:
            raise TypeError(f"Standardization takes float32 rows, not {rows.dtype}.")
        return (rows - self.mean) * self.scale


def _least(mean: Any) -> NDArray[np.float64]:
    """Return the largest standard deviation that rounding alone may leave."""
    return np.asarray(np.abs(mean) * 1e-12)
