"""Static forms of Meta-Neighborhoods: the inner gradient steps as plain matrix products.

Shapes: B queries, S entries, C classes, d features. features z [B, d], logits [B, C]; constants: the keys made ready
for the attention [S, d], the inner problem (k̂ or k̃, residuals [S, C] …), the weight before adaptation [C, d].
"""

import torch
from torch import Tensor, nn

from mnexport.forms.constants import Constants
from mntrain.models.meta_neighborhoods.adaptation import InnerForm, Problem, Steps, adapted_logits, problem_of
from mntrain.models.meta_neighborhoods.attention import KeyIndex, attention, key_index, similarity
from mntrain.models.meta_neighborhoods.inner import InnerProblem
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


class AdaptiveHead(nn.Module):
    """The adapted classifier with everything that depends on the parameters alone computed once.

    ``explicit`` builds the adapted weights w' [B, C, d]: the reference, easy to read in a graph viewer, right for every
    number of steps and form of step size. ``factored`` builds none, where one step allows it; both are exact.

    Args:
        model: trained.
        form: explicit or factored.
    """

    step_size: Tensor
    weight: Tensor

    def __init__(self, model: MetaNeighborhoods, form: InnerForm) -> None:
        super().__init__()
        self.form: InnerForm = form
        self.temperature = model.temperature
        self.step_count = model.step_count
        with torch.no_grad():
            keys, values = model.dictionary.keys, model.dictionary.values()
            problem = problem_of(model.head, keys, values)
            self.problem: Constants[Problem] = Constants(problem)
            # Where attention and classifier both compare by cosine, they share one table of unit keys.
            shared = model.similarity == "cosine" and isinstance(problem, InnerProblem)
            self.index: Constants[KeyIndex] | None = None if shared else Constants(key_index(keys, model.similarity))
            self.register_buffer("weight", model.head.weight.detach().clone())
            self.register_buffer("step_size", model.step_size.detach().clone())

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        problem = self.problem()
        index = KeyIndex(problem.keys, None) if self.index is None else self.index()
        weights = attention(similarity(features, index), self.temperature)
        steps = Steps(count=self.step_count, size=self.step_size)
        return adapted_logits(features, weights, problem, self.weight, steps, self.form)
