"""Exact static forms of Meta-Neighborhoods: the inner gradient steps as plain matrix products.

Shapes: B queries, S entries, C classes, d features. features z [B, d], logits [B, C]; constants: the keys made ready
for the attention [S, d], the inner problem (k̂ or k̃, residuals [S, C] …), the weight before adaptation [C, d].
"""

import torch
from torch import Tensor, nn

from mnexport.forms.attention import StaticAttention
from mnexport.forms.constants import Constants
from mntrain.models.meta_neighborhoods.adaptation import (
    InnerForm,
    InnerProblem,
    InnerSteps,
    adapted_logits,
    inner_problem,
)
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


class AdaptiveHead(nn.Module):
    """Adapted head with everything that depends on the parameters alone computed once.

    ``explicit`` builds the adapted weights w' [B, C, d]. It is easy to read in a graph viewer, and right for every
    number of steps and form of step size. ``factored`` builds no such weights, where one step allows
    it. Both are exact.

    Args:
        model: trained.
        form: explicit or factored.
    """

    step_size: Tensor
    weight: Tensor

    def __init__(self, model: MetaNeighborhoods, form: InnerForm) -> None:
        super().__init__()
        self.form: InnerForm = form
        self.step_count = model.step_count
        with torch.no_grad():
            problem = inner_problem(model.head, model.dictionary.keys, model.dictionary.values())
            self.problem: Constants[InnerProblem] = Constants(problem)
            self.attention = StaticAttention(model)
            self.register_buffer("weight", model.head.weight.detach().clone())
            self.register_buffer("step_size", model.step_size.detach().clone())

    def weights(self, features: Tensor) -> Tensor:
        """Compute the attention [B, S] of features [B, d]."""
        weights: Tensor = self.attention(features, self.problem())
        return weights

    def forward(self, features: Tensor) -> Tensor:
        """Compute logits [B, C] of features [B, d]."""
        problem = self.problem()
        steps = InnerSteps(count=self.step_count, size=self.step_size)
        weights = self.attention(features, problem)
        return adapted_logits(features, weights, problem, self.weight, steps, self.form)
