"""Choice of the number of directions for the norm of the adapted weight, with keys in full and in 8 bits.

Shapes: N queries, S entries, C classes, d features. attention ω and similarity P [N, S], logits [N, C].
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from mnexport.forms.attention import shares_keys
from mnexport.forms.low_rank.basis import Basis, basis_of, strongest
from mnexport.forms.low_rank.head import NormHead
from mnexport.forms.low_rank.integer_keys import IntegerKeys, integer_keys, integer_products
from mnexport.forms.low_rank.integer_tables import BLOCKS, WIDE
from mnexport.forms.low_rank.norm import NormTable, norm_table
from mnexport.forms.low_rank.queries import (
    AdaptationSetting,
    FittingQueries,
    LowRank,
    Queries,
    RankLimits,
    largest_error,
)
from mnexport.forms.low_rank.rank import RankBounds
from mntrain.layers.attention import attention, unit
from mntrain.models.meta_neighborhoods.inner import CosineProblem, logits_of_norm, tangent


def choose_norm(setting: AdaptationSetting, data: FittingQueries, limits: RankLimits) -> LowRank | None:
    """Choose the fewest directions within the limits, and the same with keys in 8 bits where that is possible."""
    problem = setting.problem
    assert isinstance(problem, CosineProblem)
    beta = setting.steps.size * problem.scale / problem.weight_norm
    basis = basis_of(_tangents(setting, data.directions), (beta / problem.weight_norm).square())
    full = _choose(setting, data, limits, basis, None)
    if full is None or not shares_keys(setting.model):
        return full
    keys = integer_keys(problem.keys)
    integer = _choose(setting, data, limits, basis, keys)
    if integer is not None:
        integer = _with_integer_tables(setting, data, limits, basis, integer)
    return LowRank(full.kind, full.head, full.rank, full.fitted_error, full.held_out_error, integer)


def _choose(
    setting: AdaptationSetting, data: FittingQueries, limits: RankLimits, basis: Basis, keys: IntegerKeys | None
) -> LowRank | None:
    problem = setting.problem
    assert isinstance(problem, CosineProblem)
    entries, classes = problem.residuals.shape
    fitted, held_out = (_Errors(setting, queries, basis, keys) for queries in (data.fitted, data.held_out))
    # Beside the directions the table holds s, one column a class.
    held = max(0, limits.columns(entries) - classes)
    bounds = RankBounds(full=basis.energies.numel(), held=held, table_bytes=limits.table_bytes, entries=entries)
    rank = limits.rank.choose(lambda rank: max(fitted.at(rank), held_out.at(rank)), bounds)
    if rank is None:
        return None
    head = _head(setting, norm_table(problem, basis, rank), keys)
    return LowRank("norm", head, rank, fitted.at(rank), held_out.at(rank))


def _with_integer_tables(
    setting: AdaptationSetting, data: FittingQueries, limits: RankLimits, basis: Basis, integer: LowRank
) -> LowRank:
    """Round wide tables to 8 bits, too, where errors stay within the limits."""
    problem = setting.problem
    assert isinstance(problem, CosineProblem)
    if problem.residuals.shape[1] < WIDE:
        return integer
    table, keys = norm_table(problem, basis, integer.rank), integer_keys(problem.keys)
    for block in BLOCKS:
        head = _head(setting, table, keys, block)
        fitted, held_out = _error_of(head, data.fitted), _error_of(head, data.held_out)
        if max(fitted, held_out) <= limits.rank.limit:
            return LowRank(integer.kind, head, integer.rank, fitted, held_out, integer_tables=True)
    return integer


def _head(setting: AdaptationSetting, table: NormTable, keys: IntegerKeys | None, block: int | None = None) -> NormHead:
    """Make the head in single precision."""
    single = None if keys is None else IntegerKeys(keys.codes, keys.steps.float())
    return NormHead(setting.model, NormTable(*(item.float() for item in table)), single, block)


def _error_of(head: NormHead, queries: Queries) -> float:
    """Compute the largest error of a probability of a head in single precision."""
    return largest_error(head(queries.features.float()).double(), queries)


class _Errors:
    """Errors of some queries by rank; everything that does not depend on the rank is computed once."""

    def __init__(self, setting: AdaptationSetting, queries: Queries, basis: Basis, keys: IntegerKeys | None) -> None:
        problem = setting.problem
        assert isinstance(problem, CosineProblem)
        self.queries, self.problem, self.size = queries, problem, setting.steps.size
        self.query = unit(queries.features)
        self.pairs = self.query @ problem.keys.mT if keys is None else integer_products(self.query, keys)
        self.weights = queries.weights if keys is None else attention(self.pairs, setting.model.temperature)
        parts = [part.transpose(0, 1) @ basis.vectors for part in _tangents(setting, self.weights)]
        self.squares = torch.cat(parts, dim=1).square().transpose(0, 1).flatten(1)
        self.along = self.weights @ (problem.residuals * problem.cosines)
        self.order = strongest(basis.energies)

    def at(self, rank: int) -> float:
        """Compute the largest error of a probability with the ``rank`` strongest directions."""
        kept = torch.zeros_like(self.squares)
        kept[:, self.order[:rank]] = self.squares[:, self.order[:rank]]
        squared = kept.view(len(self.query), self.along.shape[1], -1).sum(dim=-1)
        logits = logits_of_norm(self.query, self.pairs, self.weights, self.problem, self.size, self.along, squared)
        return largest_error(logits, self.queries)


def _tangents(setting: AdaptationSetting, weights: Tensor) -> Iterator[Tensor]:
    """Yield u − s ŵ [n, C, d] of all queries, in parts."""
    assert isinstance(setting.problem, CosineProblem)
    for part in setting.parts(len(weights)):
        yield tangent(weights[part], setting.problem)[0]
