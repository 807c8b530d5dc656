"""How many directions a model needs, and the head that has them.

Shapes: N queries, S entries, C classes, d features. features z [N, d], attention ω [N, S], logits [N, C].

The directions are fitted to real images and to the keys of the dictionary: keys lie where the data lies, and there are
more of them than images in an artifact. The rank is the smallest that keeps the probabilities of these and of other
images within half the tolerance; the other half is left for images that nobody has seen.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from mnexport.forms.low_rank.basis import basis_of, second_moments, strongest
from mnexport.forms.low_rank.head import NormHead, SubspaceHead
from mnexport.forms.low_rank.norm import norm_table
from mnexport.forms.low_rank.rank import smallest_rank
from mnexport.forms.low_rank.subspace import Subspace, subspace_tables, subspaces
from mntrain.layers.unit import unit
from mntrain.models.meta_neighborhoods.adaptation import Problem, Steps, adapted_logits, cheapest_form, problem_of
from mntrain.models.meta_neighborhoods.attention import attention, key_index, similarity
from mntrain.models.meta_neighborhoods.inner import InnerProblem, adapted_weight, logits_of_norm, tangent
from mntrain.models.meta_neighborhoods.inner_dot import DotProblem, dot_adapted_weight, with_bias
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

Kind = Literal["norm", "subspace"]
Fields = TypeVar("Fields", bound=tuple[Tensor, ...])
_KEYS = 1024
# Share of the tolerance that is used up on known images.
MARGIN = 0.5
# Numbers in the largest intermediate while fitting: 128 MB in double precision.
_CHUNK_NUMBERS = 2**24


class Queries(NamedTuple):
    """Queries with their attention and what the trained model answers, in double precision."""

    features: Tensor  # z [N, d]
    weights: Tensor  # ω [N, S]
    probabilities: Tensor  # [N, C]


@dataclass(frozen=True)
class LowRank:
    """An approximation within the tolerance.

    Args:
        kind: norm approximates the norm of the adapted weight, subspace the weight itself.
        head: features → logits.
        rank: directions over all classes.
        fitted_error: largest error of a probability on the queries it was fitted to.
        held_out_error: the same on other images.
    """

    kind: Kind
    head: nn.Module
    rank: int
    fitted_error: float
    held_out_error: float


def low_rank_kind(model: MetaNeighborhoods) -> Kind:
    """What is approximated: the norm where one step of scalar size leaves only that expensive."""
    problem = problem_of(model.head, model.dictionary.keys, model.dictionary.values())
    return "norm" if cheapest_form(problem, model.steps()) == "factored" else "subspace"


@torch.no_grad()
def low_rank(
    model: MetaNeighborhoods, fitted: Tensor, held_out: Tensor, tolerance: float, table_limit: int
) -> LowRank | None:
    """The cheapest approximation within half the tolerance on all images; None where there is none.

    Args:
        model: a cosine classifier, or a dot-product classifier for which no factored form is exact.
        fitted: features z [N, d] of images that the directions are fitted to.
        held_out: features of other images.
        tolerance: largest error of a probability.
        table_limit: bytes of the largest table.
    """
    problem = _double(problem_of(model.head, model.dictionary.keys, model.dictionary.values()))
    steps = Steps(count=model.step_count, size=model.step_size.double())
    weight = model.head.weight.double()

    def queries(features: Tensor) -> Queries:
        features = features.double()
        index = key_index(model.dictionary.keys.double(), model.similarity)
        weights = attention(similarity(features, index), model.temperature)
        form = cheapest_form(problem, steps)
        logits = [
            adapted_logits(features[part], weights[part], problem, weight, steps, form)
            for part in _parts(len(features), problem)
        ]
        return Queries(features, weights, torch.cat(logits).softmax(dim=-1))

    keys = model.dictionary.keys
    spread = torch.linspace(0, len(keys) - 1, min(_KEYS, len(keys))).long()
    data = _Data(
        directions=queries(torch.cat([fitted, keys[spread]])).weights,
        fitted=queries(fitted),
        held_out=queries(held_out),
    )
    kind = low_rank_kind(model)
    measure = _norm if kind == "norm" else _subspace
    return measure(model, problem, steps, data, _Limits(MARGIN * tolerance, table_limit))


class _Data(NamedTuple):
    directions: Tensor  # ω [N, S] of everything that directions are fitted to
    fitted: Queries  # the images among it
    held_out: Queries


class _Limits(NamedTuple):
    error: float
    table_bytes: int


def _norm(model: MetaNeighborhoods, problem: Problem, steps: Steps, data: _Data, limits: _Limits) -> LowRank | None:
    assert isinstance(problem, InnerProblem)
    entries, classes = problem.residuals.shape
    beta = steps.size * problem.scale / problem.weight_norm
    basis = basis_of(_tangents(data.directions, problem), (beta / problem.weight_norm).square())
    order = strongest(basis.energies)

    def errors(queries: Queries) -> Callable[[int], float]:
        query = unit(queries.features)
        parts = [part @ basis.vectors for part in _tangents_by_class(queries.weights, problem)]
        squares = torch.cat(parts, dim=1).square().transpose(0, 1).flatten(1)
        along = queries.weights @ (problem.residuals * problem.cosines)
        shape = (len(query), classes, -1)

        def error(rank: int) -> float:
            kept = torch.zeros_like(squares)
            kept[:, order[:rank]] = squares[:, order[:rank]]
            squared = kept.view(shape).sum(dim=-1)
            pairs = query @ problem.keys.mT
            logits = logits_of_norm(query, pairs, queries.weights, problem, steps.size, along, squared)
            return _worst(logits, queries)

        return error

    largest = min(basis.energies.numel(), limits.table_bytes // (4 * entries) - classes)
    fitted, held_out = errors(data.fitted), errors(data.held_out)
    rank = smallest_rank(lambda rank: max(fitted(rank), held_out(rank)), largest, limits.error)
    if rank is None:
        return None
    table = norm_table(problem, basis, rank)
    head = NormHead(model, type(table)(*(item.float() for item in table)))
    return LowRank("norm", head, rank, fitted(rank), held_out(rank))


def _subspace(model: MetaNeighborhoods, problem: Problem, steps: Steps, data: _Data, limits: _Limits) -> LowRank | None:
    weight = model.head.weight.double()
    classes, features = weight.shape
    entries = len(problem.keys)
    moments = second_moments(_paths(data.directions, problem, weight, steps))
    scale = problem.scale if isinstance(problem, InnerProblem) else None

    def build(rank: int) -> Subspace:
        tables = subspace_tables(problem, weight, steps, subspaces(weight, moments, rank))
        return Subspace(tables, scale, steps.count)

    def error(queries: Queries, rank: int) -> float:
        subspace = build(rank)
        query = unit(queries.features) if scale is not None else with_bias(queries.features)
        parts = [subspace(query[part], queries.weights[part]) for part in _parts(len(query), problem)]
        return _worst(torch.cat(parts), queries)

    largest = min(features, limits.table_bytes // (4 * entries * classes))
    rank = smallest_rank(lambda rank: max(error(data.fitted, rank), error(data.held_out, rank)), largest, limits.error)
    if rank is None:
        return None
    head = SubspaceHead(model, build(rank).float())
    return LowRank("subspace", head, rank * classes, error(data.fitted, rank), error(data.held_out, rank))


def _worst(logits: Tensor, queries: Queries) -> float:
    return float((logits.softmax(dim=-1) - queries.probabilities).abs().max())


def _tangents(weights: Tensor, problem: InnerProblem) -> Iterator[Tensor]:
    """u − s ŵ [n, C, d] of all queries, in parts."""
    for part in _parts(len(weights), problem):
        yield tangent(weights[part], problem)[0]


def _tangents_by_class(weights: Tensor, problem: InnerProblem) -> Iterator[Tensor]:
    return (part.transpose(0, 1) for part in _tangents(weights, problem))


def _paths(weights: Tensor, problem: Problem, weight: Tensor, steps: Steps) -> Iterator[Tensor]:
    """How far every step has moved the weights, w' − w [n, C, d], of all queries in parts."""
    for part in _parts(len(weights), problem):
        for count in range(1, steps.count + 1):
            if isinstance(problem, InnerProblem):
                moved = adapted_weight(weights[part], problem, weight, steps.size, count)
            else:
                moved = dot_adapted_weight(weights[part], problem, weight, steps.size, count)
            yield moved - weight


def _parts(queries: int, problem: Problem) -> Iterator[slice]:
    entries, classes = problem.residuals.shape
    size = max(1, _CHUNK_NUMBERS // (entries * classes))
    return (slice(start, start + size) for start in range(0, queries, size))


def _double(problem: Problem) -> Problem:
    kind: type[InnerProblem] | type[DotProblem] = type(problem)
    return kind(*(item.double() for item in problem))
