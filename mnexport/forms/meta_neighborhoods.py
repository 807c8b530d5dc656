"""Static forms of Meta-Neighborhoods: the inner gradient step as plain matrix products.

Shapes: B queries, S entries, C classes, d features. features z [B, d], logits [B, C];
constants: keys k̂ [S, d], prototypes ŵ [C, d], cosines and residuals [S, C], weight w [C, d].
"""

import torch
from torch import Tensor, nn

from mntrain.layers.unit import unit
from mntrain.models.meta_neighborhoods.inner import (
    InnerProblem,
    attention,
    explicit_logits,
    factored_logits,
    inner_problem,
)
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods


class _AdaptiveHead(nn.Module):
    """The parts both forms share: what depends on the parameters alone is computed once and kept as buffers."""

    keys: Tensor
    prototypes: Tensor
    weight_norm: Tensor
    cosines: Tensor
    residuals: Tensor
    scale: Tensor
    weight: Tensor
    step_size: Tensor

    def __init__(self, model: MetaNeighborhoods) -> None:
        super().__init__()
        self.temperature = model.temperature
        with torch.no_grad():
            head, dictionary = model.head, model.dictionary
            problem = inner_problem(dictionary.keys, dictionary.values(), head.weight, head.scale)
            for name, value in problem._asdict().items():
                self.register_buffer(name, value.detach().clone())
            self.register_buffer("weight", head.weight.detach().clone())
            self.register_buffer("step_size", model.step_size.detach().clone())

    def problem(self) -> InnerProblem:
        """The constants as the inner update takes them."""
        return InnerProblem(self.keys, self.prototypes, self.weight_norm, self.cosines, self.residuals, self.scale)

    def attend(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features [B, d] → query ẑ [B, d], similarity [B, S], attention [B, S]."""
        query = unit(features)
        similarity = query @ self.keys.mT
        return query, similarity, attention(similarity, self.temperature)


class ExplicitHead(_AdaptiveHead):
    """``explicit``: builds the adapted weights w' [B, C, d]; the reference, easy to read in a graph viewer."""

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        query, _, weights = self.attend(features)
        return explicit_logits(query, weights, self.problem(), self.weight, self.step_size)


class FactoredHead(_AdaptiveHead):
    """``factored``: exact, from w'·ẑ and ‖w'‖ alone."""

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, d] → logits [B, C]."""
        query, similarity, weights = self.attend(features)
        return factored_logits(query, similarity, weights, self.problem(), self.step_size)
