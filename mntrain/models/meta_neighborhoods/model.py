"""Meta-Neighborhoods: a classifier adapted to every input by gradient steps on its learned neighbours.

Shapes: images [B, channels, H, W], features z [B, d], attention ω [B, S], logits [B, C].
"""

from torch import Tensor, nn

from mntrain.layers.head import Head
from mntrain.layers.precision import full_precision
from mntrain.models.base import Classifier, ParameterGroup, Prediction
from mntrain.models.meta_neighborhoods.adaptation import Steps, adapted_logits, cheapest_form, problem_of
from mntrain.models.meta_neighborhoods.attention import attention, key_index, similarity
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.step_size import initial_step_size


class MetaNeighborhoods(Classifier):
    """z = μ_θ(x); w' = w − α ∇_w Σ_j ω(z, k_j) CE(f_w(k_j), v_j), once or more; logits f_w'(z) (eq. 3, algorithm 1).

    Nothing is detached: back-propagation through :meth:`forward` yields the complete meta-gradient.
    """

    def __init__(
        self, backbone: nn.Module, head: Head, dictionary: Dictionary, config: MetaNeighborhoodsConfig
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.dictionary = dictionary
        # Its absolute value is the step size, so that no optimiser step can turn descent into ascent.
        self.raw_step_size = nn.Parameter(initial_step_size(config.step_size_form, head.weight, config.step_size))
        self.similarity = config.similarity
        self.temperature = config.temperature
        self.step_count = config.steps

    @property
    def step_size(self) -> Tensor:
        """α = |raw step size|: [], [d] or [C, d]."""
        return self.raw_step_size.abs()

    def steps(self) -> Steps:
        """How the head is moved for each query."""
        return Steps(count=self.step_count, size=self.step_size)

    def forward(self, images: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → adapted and unadapted logits [B, C]."""
        features: Tensor = self.backbone(images).to(self.head.weight.dtype)
        with full_precision(features):
            return self.classify(features)

    def classify(self, features: Tensor) -> Prediction:
        """Features z [B, d] → adapted and unadapted logits [B, C]."""
        keys, values, keep = self.dictionary.entries_for(features.shape[0])
        weights = attention(similarity(features, key_index(keys, self.similarity)), self.temperature, keep)
        problem, steps = problem_of(self.head, keys, values), self.steps()
        return Prediction(
            logits=adapted_logits(features, weights, problem, self.head.weight, steps, cheapest_form(problem, steps)),
            unadapted_logits=self.head(features),
        )

    @property
    def trunk(self) -> nn.Module:
        """The backbone."""
        return self.backbone

    def parameter_groups(self) -> list[ParameterGroup]:
        """The backbone with weight decay; head, dictionary and step size without."""
        return [
            ParameterGroup(name="backbone", parameters=tuple(self.backbone.parameters()), decay=True),
            ParameterGroup(name="head", parameters=tuple(self.head.parameters()), decay=False),
            ParameterGroup(name="dictionary", parameters=tuple(self.dictionary.parameters()), decay=False),
            ParameterGroup(name="step_size", parameters=(self.raw_step_size,), decay=False),
        ]
