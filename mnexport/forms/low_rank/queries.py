"""Calibration queries of a model, with attention and answers of the trained model in double precision.

Shapes: N queries, S entries, C classes, d features. features z [N, d], attention ω and similarity P [N, S],
probabilities and logits [N, C].
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mnexport.forms.low_rank.rank import RankRule
from mntrain.layers.attention import attention, key_index, similarity
from mntrain.models.meta_neighborhoods.adaptation import (
    InnerProblem,
    InnerSteps,
    adapted_logits,
    cheapest_form,
    inner_problem,
)
from mntrain.models.meta_neighborhoods.inner import CosineProblem
from mntrain.models.meta_neighborhoods.inner_dot import DotProblem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

ApproximationKind = Literal["norm", "subspace"]
# Numbers in the largest intermediate while fitting: 128 MB in double precision.
_CHUNK_NUMBERS = 2**24
_NUMBER_BYTES = 4


class Queries(NamedTuple):
    """Queries with their attention and the probabilities of the trained model."""

    features: Tensor  # z [N, d]
    weights: Tensor  # ω [N, S]
    probabilities: Tensor  # [N, C]


class FittingQueries(NamedTuple):
    """Queries that an approximation is fitted to, and others that judge it."""

    directions: Tensor  # ω [N, S] of everything that directions are fitted to
    fitted: Queries  # the images among it
    held_out: Queries


class RankLimits(NamedTuple):
    """Limits of an approximation: its rank or tolerance, and the size of its tables."""

    rank: RankRule
    table_bytes: int  # of the largest table

    def columns(self, entries: int) -> int:
        """Count the columns that a table of 32-bit numbers with a row for each of S entries may have."""
        return self.table_bytes // (_NUMBER_BYTES * entries)


class AdaptationSetting(NamedTuple):
    """Adaptation of a model in double precision: its inner problem and its steps."""

    model: MetaNeighborhoods
    problem: InnerProblem
    steps: InnerSteps

    @classmethod
    def of(cls, model: MetaNeighborhoods) -> "AdaptationSetting":
        """Convert the adaptation of a trained model to double precision."""
        problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
        kind: type[CosineProblem] | type[DotProblem] = type(problem)
        wide = kind(*(item.double() for item in problem))
        return cls(model, wide, InnerSteps(count=model.step_count, size=model.step_size.double()))

    def queries(self, features: Tensor) -> Queries:
        """Compute attention and answers of features [N, d]."""
        features = features.double()
        index = key_index(self.model.dictionary.keys.double(), self.model.similarity)
        weights = attention(similarity(features, index), self.model.temperature)
        form, weight = cheapest_form(self.problem, self.steps), self.model.head.weight.double()
        logits = [
            adapted_logits(features[part], weights[part], self.problem, weight, self.steps, form)
            for part in self.parts(len(features))
        ]
        return Queries(features, weights, torch.cat(logits).softmax(dim=-1))

    def parts(self, queries: int) -> Iterator[slice]:
        """Split queries into parts whose intermediates fit into memory."""
        entries, classes = self.problem.residuals.shape
        size = max(1, _CHUNK_NUMBERS // (entries * classes))
        return (slice(start, start + size) for start in range(0, queries, size))


@dataclass(frozen=True)
class LowRank:
    """An approximate head within the tolerance.

    Args:
        kind: ``norm`` approximates the norm of the adapted weight, ``subspace`` the weight itself.
        head: features → logits.
        rank: directions over all classes.
        fitted_error: largest error of a probability on the images it was fitted to.
        held_out_error: the same on other images.
        integer: the same with keys in 8 bits, where that keeps the tolerance, too.
        integer_tables: its tables with a column for every class are in 8 bits, too.
    """

    kind: ApproximationKind
    head: nn.Module
    rank: int
    fitted_error: float
    held_out_error: float
    integer: "LowRank | None" = None
    integer_tables: bool = False


def largest_error(logits: Tensor, queries: Queries) -> float:
    """Compute the largest error of a probability."""
    return float((logits.softmax(dim=-1) - queries.probabilities).abs().max())
