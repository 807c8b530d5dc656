"""Meta-Neighborhoods: a classifier adapted to every input by one gradient step on its learned neighbours.

Shapes: images [B, channels, H, W], query z [B, d], similarity and attention [B, S], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mntrain.layers.cosine_head import CosineHead
from mntrain.layers.unit import unit
from mntrain.models.base import Model, ParameterGroup, Prediction
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.inner import attention, factored_logits, inner_problem


class MetaNeighborhoods(Model):
    """z = μ_θ(x); w' = w − |α| ∇_w Σ_j ω(z, k_j) CE(f_w(k_j), v_j); logits = τ cos(z, w') (eq. 3, algorithm 1).

    Nothing is detached: back-propagation through :meth:`forward` yields the complete meta-gradient.
    """

    def __init__(
        self, backbone: nn.Module, head: CosineHead, dictionary: Dictionary, config: MetaNeighborhoodsConfig
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.dictionary = dictionary
        self.temperature = config.temperature
        # Its absolute value is the step size, so that no optimiser step can turn descent into ascent.
        self.raw_step_size = nn.Parameter(torch.tensor(float(config.step_size)))

    @property
    def step_size(self) -> Tensor:
        """α = |raw step size|, shape []."""
        return self.raw_step_size.abs()

    def forward(self, images: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → adapted and unadapted logits [B, C]."""
        query = unit(self.backbone(images))
        keys, values, keep = self.dictionary.entries_for(query.shape[0])
        problem = inner_problem(keys, values, self.head.weight, self.head.scale)
        similarity = query @ problem.keys.mT
        weights = attention(similarity, self.temperature, keep)
        return Prediction(
            logits=factored_logits(query, similarity, weights, problem, self.step_size),
            unadapted_logits=self.head.scale * (query @ problem.prototypes.mT),
        )

    def parameter_groups(self) -> list[ParameterGroup]:
        """The backbone with weight decay; head, dictionary and step size without."""
        return [
            ParameterGroup(name="backbone", parameters=tuple(self.backbone.parameters()), decay=True),
            ParameterGroup(name="head", parameters=tuple(self.head.parameters()), decay=False),
            ParameterGroup(name="dictionary", parameters=tuple(self.dictionary.parameters()), decay=False),
            ParameterGroup(name="step_size", parameters=(self.raw_step_size,), decay=False),
        ]
