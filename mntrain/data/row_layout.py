"""Columns that a model of rows takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from mntrain.data.tables import Categories


@dataclass(frozen=True, kw_only=True)
class RowLayout:
    """Columns that a model takes and gives.

    Args:
        numbers: columns of numbers, in their order.
        categories: vocabulary of each category column, in their order.
        imputed: a number may be missing.
        targets: columns that the model estimates, or the one it tells apart.
        labels: class names; None where targets are values.
    """

    numbers: tuple[str, ...]
    categories: Categories
    imputed: bool
    targets: tuple[str, ...]
    labels: tuple[str, ...] | None
