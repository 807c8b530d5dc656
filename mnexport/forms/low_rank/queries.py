"""Calibration queries of a model: their attention and the trained model's answers, in double precision.

Shapes: N queries, S entries, C classes, d features. features z [N, d], attention ω and similarity P [N, S],
probabilities and logits [N, C].
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mnexport.forms.low_rank.rank import RankRule
from mntrain.models.meta_neighborhoods.adaptation import (
    InnerProblem,
    InnerSteps,
    adapted_logits,
    cheapest_form,
    inner_problem,
)
from mntrain.models.meta_neighborhoods.attention import attention, key_index, similarity
from mntrain.models.meta_neighborhoods.inner import CosineProblem
from mntrain.models.meta_neighborhoods.inner_dot import DotProblem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

Kind = Literal["norm", "subspace"]
# Numbers in the largest intermediate while fitting: 128 MB in double precision.
_CHUNK_NUMBERS = 2**24
_NUMBER_BYTES = 4


class Queries(NamedTuple):
    """Queries with their attention and what the trained model answers."""

    features: Tensor  # z [N, d]
    weights: Tensor  # ω [N, S]
    probabilities: Tensor  # [N, C]


class Data(NamedTuple):
    """What an approximation is fitted to and judged by."""

    directions: Tensor  # ω [N, S] of everything that directions are fitted to
    fitted: Queries  # the images among it
    held_out: Queries


class Limits(NamedTuple):
    """What an approximation must keep within."""

    rank: RankRule
    table_bytes: int  # of the largest table

    def columns(self, entries: int) -> int:
        """Columns that a table of 32-bit numbers with a row for each of S entries may have."""
        return self.table_bytes // (_NUMBER_BYTES * entries)


class Setting(NamedTuple):
    """A model in double precision."""

    model: MetaNeighborhoods
    problem: InnerProblem
    steps: InnerSteps

    @classmethod
    def of(cls, model: MetaNeighborhoods) -> "Setting":
        """Of a trained model."""
        problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
        kind: type[CosineProblem] | type[DotProblem] = type(problem)
        wide = kind(*(item.double() for item in problem))
        return cls(model, wide, InnerSteps(count=model.step_count, size=model.step_size.double()))

    def queries(self, features: Tensor) -> Queries:
        """Features [N, d] with attention and answers."""
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
        """Queries in parts whose intermediates fit into memory."""
        entries, classes = self.problem.residuals.shape
        size = max(1, _CHUNK_NUMBERS // (entries * classes))
        return (slice(start, start + size) for start in range(0, queries, size))


@dataclass(frozen=True)
class LowRank:
    """An approximation within the tolerance.

    Args:
        kind: norm approximates the norm of the adapted weight, subspace the weight itself.
        head: features → logits.
        rank: directions over all classes.
        fitted_error: largest error of a probability on the images it was fitted to.
        held_out_error: the same on other images.
        integer: the same with keys in 8 bits, where that keeps within the tolerance, too.
    """

    kind: Kind
    head: nn.Module
    rank: int
    fitted_error: float
    held_out_error: float
    integer: "LowRank | None" = None


def worst(logits: Tensor, queries: Queries) -> float:
    """Largest error of a probability."""
    return float((logits.softmax(dim=-1) - queries.probabilities).abs().max())
