"""The low-rank forms as classifiers of features.

Shapes: B queries, S entries, C classes, d features. features z [B, d], attention ω [B, S], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mnexport.forms.attention import StaticAttention
from mnexport.forms.constants import Constants
from mnexport.forms.low_rank.norm import LowRankNorm, NormTable
from mnexport.forms.low_rank.subspace import Subspace
from mntrain.layers.unit import unit
from mntrain.models.meta_neighborhoods.adaptation import Problem, problem_of
from mntrain.models.meta_neighborhoods.inner import InnerProblem, logits_of_norm
from mntrain.models.meta_neighborhoods.inner_dot import with_bias
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


class NormHead(nn.Module):
    """One step of scalar size of a cosine classifier; only the norm of the adapted weight is approximated."""

    step_size: Tensor

    def __init__(self, model: MetaNeighborhoods, table: NormTable) -> None:
        super().__init__()
        with torch.no_grad():
            problem = problem_of(model.head, model.dictionary.keys, model.dictionary.values())
            assert isinstance(problem, InnerProblem)
            self.problem: Constants[InnerProblem] = Constants(problem)
            self.attention = StaticAttention(model)
            self.norm = LowRankNorm(table)
            self.register_buffer("step_size", model.step_size.detach().clone())

    def weights(self, features: Tensor) -> Tensor:
        """Features [B, d] → attention [B, S]."""
        weights: Tensor = self.attention(features, self.problem())
        return weights

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        problem = self.problem()
        query = unit(features)
        weights = self.attention(features, problem)
        along, squared = self.norm(weights)
        similarity = query @ problem.keys.mT
        return logits_of_norm(query, similarity, weights, problem, self.step_size, along, squared)


class SubspaceHead(nn.Module):
    """Any number of steps and form of step size; the adapted weights stay within the directions of each class."""

    def __init__(self, model: MetaNeighborhoods, subspace: Subspace) -> None:
        super().__init__()
        with torch.no_grad():
            problem = problem_of(model.head, model.dictionary.keys, model.dictionary.values())
            self.problem: Constants[Problem] = Constants(problem)
            self.attention = StaticAttention(model)
            self.subspace = subspace
        self.cosine = isinstance(problem, InnerProblem)

    def weights(self, features: Tensor) -> Tensor:
        """Features [B, d] → attention [B, S]."""
        weights: Tensor = self.attention(features, self.problem())
        return weights

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        query = unit(features) if self.cosine else with_bias(features)
        logits: Tensor = self.subspace(query, self.attention(features, self.problem()))
        return logits
