"""Low-rank heads: approximate classifiers of features.

Shapes: B queries, S entries, C classes, d features. features z [B, d], attention ω [B, S], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mnexport.forms.attention import StaticAttention
from mnexport.forms.constants import Constants
from mnexport.forms.low_rank.integer_keys import IntegerKeys, integer_products
from mnexport.forms.low_rank.integer_tables import BlockTable
from mnexport.forms.low_rank.norm import LowRankNorm, NormTable
from mnexport.forms.low_rank.subspace import Subspace
from mntrain.layers.attention import attention, unit
from mntrain.models.meta_neighborhoods.adaptation import InnerProblem, inner_problem
from mntrain.models.meta_neighborhoods.inner import CosineProblem, logits_of_norm
from mntrain.models.meta_neighborhoods.inner_dot import with_bias
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


class NormHead(nn.Module):
    """Cosine head with one step of scalar size; only the norm of the adapted weight is approximated.

    Args:
        model: trained.
        table: of the norm.
        keys: in 8 bits, for attention and classifier alike; None takes those of the model.
        block: entries of a block of tables with a column for every class, in 8 bits; None keeps floats.
    """

    step_size: Tensor

    def __init__(
        self,
        model: MetaNeighborhoods,
        table: NormTable,
        keys: IntegerKeys | None = None,
        block: int | None = None,
    ) -> None:
        super().__init__()
        self.keys: Constants[IntegerKeys] | None = None if keys is None else Constants(keys)
        with torch.no_grad():
            problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
            assert isinstance(problem, CosineProblem)
            self.problem: Constants[CosineProblem] = Constants(problem)
            self.attention = StaticAttention(model)
            self.norm = LowRankNorm(table, block)
            self.residuals = None if block is None else BlockTable(problem.residuals, block)
            self.register_buffer("step_size", model.step_size.detach().clone())

    def weights(self, features: Tensor) -> Tensor:
        """Compute the attention [B, S] of features [B, d]."""
        weights: Tensor = self._attend(features, unit(features))[1]
        return weights

    def forward(self, features: Tensor) -> Tensor:
        """Compute logits [B, C] of features [B, d]."""
        problem, query = self.problem(), unit(features)
        similarity, weights = self._attend(features, query)
        along, squared = self.norm(weights)
        return logits_of_norm(query, similarity, weights, problem, self.step_size, along, squared, self.residuals)

    def _attend(self, features: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Compute similarity P and attention ω [B, S]."""
        problem = self.problem()
        if self.keys is None:
            return query @ problem.keys.mT, self.attention(features, problem)
        similarity = integer_products(query, self.keys())
        return similarity, attention(similarity, self.attention.temperature)


class SubspaceHead(nn.Module):
    """Head with any number of steps and form of step size, whose adapted weights stay in subspaces of each class."""

    def __init__(self, model: MetaNeighborhoods, subspace: Subspace) -> None:
        super().__init__()
        with torch.no_grad():
            problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
            self.problem: Constants[InnerProblem] = Constants(problem)
            self.attention = StaticAttention(model)
            self.subspace = subspace
        self.cosine = isinstance(problem, CosineProblem)

    def weights(self, features: Tensor) -> Tensor:
        """Compute the attention [B, S] of features [B, d]."""
        weights: Tensor = self.attention(features, self.problem())
        return weights

    def forward(self, features: Tensor) -> Tensor:
        """Compute logits [B, C] of features [B, d]."""
        query = unit(features) if self.cosine else with_bias(features)
        logits: Tensor = self.subspace(query, self.attention(features, self.problem()))
        return logits
