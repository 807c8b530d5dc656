"""Encoding of stored rows as inputs of a model: numbers imputed and standardized, categories one-hot.

Shapes: B batch, N rows, F stored columns, M of them numbers, K values of a category, F' encoded columns, T targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mntrain.data.blockwise.column_statistics import column_statistics
from mntrain.data.tables import Imputation, RowArray, TableData, TableSet
from mntrain.errors import ConfigError

Scale = float | tuple[float, ...]
"""One number for a single target, or one for each of several."""


@dataclass(frozen=True, kw_only=True)
class StandardizationConfig:
    """Standardisation (value - mean) / std of every column of numbers, and of targets that are values.

    Categories are encoded one-hot, as 0 and 1 in the order of their codes; an unknown or missing one has no 1.

    Raises:
        ConfigError: ``mean``, ``std`` and ``fill`` differ in length or are not finite, a std is not above 0, or no
            column is there.
    """

    mean: tuple[float, ...]
    """Subtracted from each column of numbers; in the column's own units."""
    std: tuple[float, ...]
    """Each column of numbers is divided by it; in the column's own units, above 0."""
    fill: tuple[float, ...] | None = None
    """Stands for a missing number of each column, in its own units; None where no number may be missing."""
    category_sizes: tuple[int, ...] = ()
    """Number of values K of each category column; these columns come after those of numbers."""
    target_mean: Scale = 0.0
    """Subtracted from targets that are values; in the target's own units."""
    target_std: Scale = 1.0
    """Targets that are values are divided by it; in the target's own units, above 0."""

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not (self.mean or self.category_sizes):
            raise ConfigError(
                f"standardization.mean has {len(self.mean)} value(s) and standardization.std {len(self.std)}; both "
                "need one value for each column."
            )
        if self.fill is not None and len(self.fill) != len(self.mean):
            raise ConfigError(
                f"standardization.fill has {len(self.fill)} value(s), but there are {len(self.mean)} column(s) of "
                "numbers; it needs one for each, or null."
            )
        if np.shape(self.target_mean) != np.shape(self.target_std):
            raise ConfigError(
                f"standardization.target_mean is {self.target_mean} and target_std {self.target_std}; both need one "
                "value for each target."
            )
        if not all(math.isfinite(value) for value in (*self.mean, *(self.fill or ()), *_values(self.target_mean))):
            raise ConfigError(
                f"standardization.mean is {self.mean}, fill {self.fill} and target_mean {self.target_mean}; every "
                "value must be finite."
            )
        if not all(math.isfinite(value) and value > 0 for value in (*self.std, *_values(self.target_std))):
            raise ConfigError(
                f"standardization.std is {self.std} and target_std {self.target_std}; every value must be finite and "
                "above 0."
            )
        if any(size < 1 for size in self.category_sizes):
            raise ConfigError(f"Categories have {self.category_sizes} values; each needs at least one.")

    @classmethod
    def identity(cls, features: int) -> StandardizationConfig:
        """Make the configuration that leaves rows of numbers and targets as they are."""
        return cls(mean=(0.0,) * features, std=(1.0,) * features)

    @classmethod
    def from_data(cls, data: TableData, *, scaled: bool = True) -> StandardizationConfig:
        """Make the configuration that the training rows of ``data`` give.

        Args:
            data: the splits.
            scaled: standardize numbers and targets; otherwise they are only imputed.
        """
        return cls.from_rows(
            data.train,
            category_sizes=data.category_sizes,
            imputation=data.imputation,
            scaled=scaled,
        )

    @classmethod
    def from_rows(
        cls,
        rows: TableSet,
        *,
        category_sizes: tuple[int, ...] = (),
        imputation: Imputation | None = None,
        scaled: bool = True,
    ) -> StandardizationConfig:
        """Make the configuration from mean and deviation of each column of ``rows``, and of targets that are values.

        A column (or target) of one value gets std 1. Missing numbers are filled in before.

        Args:
            rows: training rows, with a number in every column.
            category_sizes: number of values of each category column, the last columns.
            imputation: what stands for a missing number; None where none is missing.
            scaled: standardize; otherwise means are 0 and deviations 1.
        """
        numbers = rows.inputs.shape[1] - len(category_sizes)
        found = column_statistics(rows.inputs, numbers, imputation) if scaled or imputation is not None else None
        common: dict[str, Any] = {
            "fill": None if found is None or found.fill is None else tuple(found.fill.tolist()),
            "category_sizes": category_sizes,
        }
        if not scaled or found is None:
            several = rows.targets.shape[1] if rows.targets.ndim == 2 else 0
            if several:
                common |= {"target_mean": (0.0,) * several, "target_std": (1.0,) * several}
            return cls(mean=(0.0,) * numbers, std=(1.0,) * numbers, **common)
        values = rows.targets.astype(np.float64) if rows.targets.dtype == np.float32 else np.array([0.0])
        mean, std = found.mean, found.std
        target_mean, target_std = values.mean(axis=0), values.std(axis=0)
        return cls(
            mean=tuple(mean.tolist()),
            std=tuple(np.where(std > _least(mean), std, 1.0).tolist()),
            target_mean=_scale(target_mean),
            target_std=_scale(np.where(target_std > _least(target_mean), target_std, 1.0)),
            **common,
        )

    @property
    def changes_nothing(self) -> bool:
        """Tell if every row of numbers stays as it is."""
        plain = self.fill is None and not self.category_sizes
        return plain and not any(self.mean) and all(value == 1.0 for value in self.std)

    @property
    def columns(self) -> int:
        """Number of stored columns F: numbers and categories."""
        return len(self.mean) + len(self.category_sizes)

    @property
    def width(self) -> int:
        """Number of encoded columns F': numbers and values of categories."""
        return len(self.mean) + sum(self.category_sizes)

    def targets(self, rows: TableSet) -> TableSet:
        """Standardise the targets of ``rows`` if they are values; rows with labels are returned as they are."""
        if rows.targets.dtype != np.float32:
            return rows
        values = (rows.targets.astype(np.float64) - np.asarray(self.target_mean)) / np.asarray(self.target_std)
        return TableSet(inputs=rows.inputs, targets=values.astype(np.float32))

    def inputs(self, rows: RowArray) -> RowArray:
        """Encode ``rows`` [N, F] as [N, F'] like :class:`Standardization` does, for methods that are no networks."""
        with torch.inference_mode():
            standardised: RowArray = Standardization(self)(torch.from_numpy(rows)).numpy()
        return standardised


class Standardization(nn.Module):
    """Encodes stored rows float32 [B, F] as float32 [B, F'].

    Buffers: ``mean`` and ``scale`` = 1 / std, float32 [M] each; ``fill`` float32 [M] where numbers may be missing;
    ``category_columns`` int64 and ``category_codes`` float32 [F' - M] where there are categories: the category column
    and the code of each one-hot column. The buffers follow from the configuration, so none is in the state dict. The
    mean is subtracted first: in one multiply-add, a column far from 0 would lose its digits.
    """

    mean: Tensor
    scale: Tensor
    fill: Tensor
    category_columns: Tensor
    category_codes: Tensor

    def __init__(self, config: StandardizationConfig) -> None:
        super().__init__()
        self.config = config
        self.numbers = len(config.mean)
        self.register_buffer("mean", torch.tensor(config.mean, dtype=torch.float64).float(), persistent=False)
        std = torch.tensor(config.std, dtype=torch.float64)
        self.register_buffer("scale", (1.0 / std).float(), persistent=False)
        if config.fill is not None:
            self.register_buffer("fill", torch.tensor(config.fill, dtype=torch.float64).float(), persistent=False)
        if config.category_sizes:
            sizes = torch.tensor(config.category_sizes)
            columns = torch.arange(len(sizes)).repeat_interleave(sizes)
            codes = torch.cat([torch.arange(size) for size in config.category_sizes]).float()
            self.register_buffer("category_columns", columns, persistent=False)
            self.register_buffer("category_codes", codes, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Encode ``rows`` float32 [B, F] as float32 [B, F'].

        Raises:
            TypeError: another dtype.
        """
        if rows.dtype != torch.float32:
            raise TypeError(f"Standardization takes float32 rows, not {rows.dtype}.")
        if not self.config.category_sizes:
            return self.encode_numbers(rows)
        one_hot = self.encode_categories(rows[:, self.numbers :])
        return torch.cat([self.encode_numbers(rows[:, : self.numbers]), one_hot], dim=1) if self.numbers else one_hot

    def encode_numbers(self, numbers: Tensor) -> Tensor:
        """Impute and standardise the columns of numbers, float32 [B, M]."""
        if self.config.fill is not None:
            numbers = torch.where(torch.isnan(numbers), self.fill, numbers)
        return (numbers - self.mean) * self.scale

    def encode_categories(self, codes: Tensor) -> Tensor:
        """Encode ``codes`` float32 [B, F - M] one-hot as float32 [B, F' - M]; an unknown one as zeros."""
        return (codes.index_select(1, self.category_columns) == self.category_codes).to(torch.float32)


def _values(scale: Scale) -> tuple[float, ...]:
    return scale if isinstance(scale, tuple) else (scale,)


def _scale(values: NDArray[np.float64]) -> Scale:
    return float(values) if values.ndim == 0 else tuple(values.tolist())


def _least(mean: Any) -> NDArray[np.float64]:
    """Return the largest standard deviation that rounding alone may leave."""
    return np.asarray(np.abs(mean) * 1e-12)
