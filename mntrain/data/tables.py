"""Rows of numbers and categories in memory.

Shapes: N rows, F features, T targets. Columns of numbers come first, NaN where a value is missing; then one column of
codes for each category column: 0 to K - 1, the position in its vocabulary, or -1 for an unknown or missing value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mntrain.data.account import SourceAccount
from mntrain.data.blockwise.row_blocks import any_value
from mntrain.data.duplicates import Duplicates, example_keys, find_duplicates
from mntrain.data.examples import IndexArray
from mntrain.data.feature_origin import FeatureOrigin
from mntrain.data.labels import check_lines, check_names
from mntrain.data.split_record import SPLITS, SplitRecord
from mntrain.errors import DataError

RowArray = NDArray[np.float32]
Categories = Mapping[str, tuple[str, ...]]
"""Name of each category column → its vocabulary, in the order of the codes."""
Imputation = Literal["median", "mean"]
UNKNOWN = -1
"""Code of a category that is unknown or missing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TableSet:
    """Rows of one split: ``inputs`` float32 [N, F] and ``targets``, float32 values [N] or [N, T] or int64 labels [N].

    Numbers may be NaN, for a missing value. Both arrays are kept contiguous and writable (copied if need be), so that
    PyTorch can share their memory.

    Raises:
        DataError: the arrays have another dtype or shape, differ in length, are empty, or hold infinite values.
    """

    inputs: RowArray
    targets: NDArray[Any]

    def __post_init__(self) -> None:
        if self.inputs.dtype != np.float32 or self.inputs.ndim != 2:
            raise DataError(
                f"Rows are {self.inputs.dtype} of shape {list(self.inputs.shape)}; they must be float32 of shape "
                "[rows, features]."
            )
        several = self.targets.dtype == np.float32 and self.targets.ndim == 2 and self.targets.shape[1] > 1
        if (
            self.targets.dtype not in (np.float32, np.int64)
            or self.targets.shape[:1] != self.inputs.shape[:1]
            or (self.targets.ndim != 1 and not several)
        ):
            raise DataError(
                f"Targets are {self.targets.dtype} of shape {list(self.targets.shape)}; they must be float32 values or "
                f"int64 labels of shape [{len(self.inputs)}], one for each row, or float32 values of several targets."
            )
        if self.inputs.size == 0:
            raise DataError(f"A split has shape {list(self.inputs.shape)}; it needs at least one row and one feature.")
        if any_value(np.isinf, self.inputs):
            raise DataError("The inputs hold infinite values; every value must be finite.")
        if not np.isfinite(self.targets).all():
            raise DataError("The targets hold NaN or infinite values; every value must be finite.")
        for name in ("inputs", "targets"):
            object.__setattr__(self, name, np.require(getattr(self, name), requirements=("C", "W")))

    def __len__(self) -> int:
        return len(self.inputs)

    def select(self, indices: IndexArray) -> TableSet:
        """Copy the rows at ``indices`` (int64 [M]), in that order."""
        return TableSet(inputs=self.inputs[indices], targets=self.targets[indices])


def check_inputs(inputs: RowArray, categories: Categories, imputed: bool, *, what: str) -> None:
    """Check the inputs [N, F] of rows against their description.

    Args:
        inputs: numbers, then codes.
        categories: vocabulary of each category column.
        imputed: numbers may be missing.
        what: the rows, for messages.

    Raises:
        DataError: a code is outside its vocabulary, or a number is missing that must not be.
    """
    numbers = inputs.shape[1] - len(categories)
    if not imputed and any_value(np.isnan, inputs[:, :numbers]):
        raise DataError(f"{what} holds NaN among its numbers; every number must be finite.")
    for column, (name, vocabulary) in enumerate(categories.items(), numbers):
        if not np.isin(inputs[:, column], np.arange(UNKNOWN, len(vocabulary))).all():
            raise DataError(f"{what} holds codes of '{name}' outside {UNKNOWN} to {len(vocabulary) - 1}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceTable:
    """Rows of a source, in the splits that the source itself has."""

    noun: ClassVar[str] = "row"

    splits: Mapping[str, TableSet]
    """The source's own splits: ``train`` and perhaps ``validation`` and ``test``; or ``all`` alone."""
    feature_names: tuple[str, ...]
    """Name of each column of the inputs: first those of numbers, then those of categories."""
    target_names: tuple[str, ...]
    """Name of each column that is estimated, or of the one that is told apart."""
    label_names: tuple[str, ...] | None
    """Class names; label i means ``label_names[i]``. None where the targets are values."""
    categories: Categories = field(default_factory=dict)
    """Vocabulary of each category column, of all rows."""
    imputation: Imputation | None = None
    """What stands for missing numbers; None where none is missing."""
    account: SourceAccount = field(default_factory=SourceAccount)
    """What the source held, and what became of it."""
    origin: FeatureOrigin | None = None
    """Network that the rows come from; None where they are no features."""

    @property
    def numbers(self) -> int:
        """Number of columns of numbers, the first of the inputs."""
        return len(self.feature_names) - len(self.categories)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableData:
    """Training, validation and test split of one table; all have the same columns.

    Raises:
        DataError: the splits disagree on the columns or the targets, a label is outside ``label_names``, a code outside
            its vocabulary, or a number is missing and ``imputation`` is None.
    """

    train: TableSet
    validation: TableSet
    test: TableSet
    feature_names: tuple[str, ...]
    """Name of each column of the inputs: first those of numbers, then those of categories."""
    target_names: tuple[str, ...]
    """Name of each column that is estimated, or of the one that is told apart."""
    label_names: tuple[str, ...] | None
    """Class names; label i means ``label_names[i]``. None where the targets are values."""
    split: SplitRecord
    categories: Categories = field(default_factory=dict)
    """Vocabulary of each category column, of the training rows."""
    imputation: Imputation | None = None
    """What stands for missing numbers; None where none is missing."""
    account: SourceAccount = field(default_factory=SourceAccount)
    """What the source held, and what became of it."""
    origin: FeatureOrigin | None = None
    """Network that the rows come from; None where they are no features."""

    def __post_init__(self) -> None:
        kind = np.float32 if self.label_names is None else np.int64
        for name in SPLITS:
            part = self.part(name)
            if part.inputs.shape[1] != self.features:
                raise DataError(
                    f"The {name} split has {part.inputs.shape[1]} columns of features, but {self.features} names are "
                    "given; every split needs the same columns."
                )
            if part.targets.shape[1:] != ((len(self.target_names),) if len(self.target_names) > 1 else ()):
                raise DataError(
                    f"The {name} split has targets of shape {list(part.targets.shape)}, but "
                    f"{len(self.target_names)} name(s) of targets are given."
                )
            check_inputs(part.inputs, self.categories, self.imputation is not None, what=f"The {name} split")
            if part.targets.dtype != kind:
                raise DataError(f"The targets of the {name} split are {part.targets.dtype}; they must be {kind}.")
        if self.label_names is not None:
            check_names(self.label_names)
            check_lines(self.label_names)
            labels = [self.part(name).targets for name in SPLITS]
            if min(part.min() for part in labels) < 0 or max(part.max() for part in labels) >= len(self.label_names):
                raise DataError(f"A label is outside 0 to {len(self.label_names) - 1}; correct the labels of the data.")

    def part(self, name: str) -> TableSet:
        """Return the split ``name``: ``train``, ``validation``, ``test``, or ``all`` three one after another."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        if name != "all":
            return parts[name]
        return TableSet(
            inputs=np.concatenate([part.inputs for part in parts.values()]),
            targets=np.concatenate([part.targets for part in parts.values()]),
        )

    @cached_property
    def duplicates(self) -> Duplicates:
        """Equal rows: inputs and targets. Contradictions are training rows with equal inputs and other classes."""
        keys = {name: example_keys(self.part(name).inputs, self.part(name).targets) for name in SPLITS}
        if self.label_names is None:
            return find_duplicates(keys)
        return find_duplicates(keys, inputs=example_keys(self.train.inputs), labels=self.train.targets)

    def place(self, split: str, position: int) -> str:
        """Name the row at ``position`` of ``split`` by its number in the source, from 0."""
        return self.split.place(split, position, noun="row")

    @property
    def training_views(self) -> int:
        """Rows of each training example: several where features of views of an image are rows of their own."""
        return 1 if self.origin is None else self.origin.views

    @property
    def features(self) -> int:
        """Number of columns F of the inputs, as they are stored."""
        return len(self.feature_names)

    @property
    def category_sizes(self) -> tuple[int, ...]:
        """Number of values K of each category column."""
        return tuple(len(vocabulary) for vocabulary in self.categories.values())
