"""Description of one model family: settings, builders, and its rows in the comparisons of the papers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from mntrain.layers.mlp import Mlp
from mntrain.models.base import Model, Regressor, TargetRanges

BuildBackbone = Callable[[], nn.Module]
"""Builds a new feature extractor, with d in its attribute ``features``."""

OWN_ROWS = 100
"""Number of the table for rows that no table of the paper has."""


@dataclass(frozen=True, kw_only=True)
class FamilyVariant:
    """A row that ``mntrain compare`` can train by name.

    Args:
        name: of the row.
        table: number of the paper's table; rows of a lower number come first.
        words: overrides for ``mntrain fit`` that follow ``--family``.
    """

    name: str
    table: int
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model family.

    Args:
        config: dataclass of its settings.
        build: (settings, builder of backbones, C classes) → untrained classifier.
        build_regressor: (settings, perceptron with T outputs, range of each target) → untrained regressor; None where
            the family only classifies.
        complete: (settings, sections of a recipe by name) → settings without words that stand for a value of another
            section; None where there are no such words.
        variants: rows for ``mntrain compare``.
    """

    config: type[Any]
    build: Callable[[Any, BuildBackbone, int], Model]
    build_regressor: Callable[[Any, Mlp, TargetRanges], Regressor] | None = None
    complete: Callable[[Any, Mapping[str, Any]], Any] | None = None
    variants: tuple[FamilyVariant, ...] = ()
