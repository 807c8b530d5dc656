"""Meta-Neighborhoods: a classifier adapted to every input by gradient steps on its learned neighbors.

Shapes: images [B, channels, H, W], features z [B, d], attention ω [B, S], logits [B, C].
"""

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mntrain.layers.head import Head
from mntrain.layers.precision import full_precision
from mntrain.models.base import Batch, Classifier, ParameterGroup, Prediction
from mntrain.models.meta_neighborhoods.adaptation import InnerSteps, adapted_logits, cheapest_form, inner_problem
from mntrain.models.meta_neighborhoods.attention import attention, key_index, similarity
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import Dictionary
from mntrain.models.meta_neighborhoods.groups import adaptation_groups
from mntrain.models.meta_neighborhoods.step_size import attach_step_size, initial_step_size


class MetaNeighborhoods(Classifier):
    """z = μ_θ(x); w' = w − α ∇_w Σ_j ω(z, k_j) CE(f_w(k_j), v_j), once or more; logits f_w'(z) (eq. 3, algorithm 1).

    Nothing is detached: back-propagation through :meth:`forward` yields the complete meta-gradient.
    """

    raw_step_size: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        heads: tuple[Head, Head | None],
        dictionary: Dictionary,
        config: MetaNeighborhoodsConfig,
    ) -> None:
        """Args: backbone; the head that is adapted, and the auxiliary one if there is one; dictionary; settings."""
        super().__init__()
        self.backbone = backbone
        self.head, self.auxiliary_head = heads
        self.dictionary = dictionary
        start = initial_step_size(config.step_size_form, self.head.weight, config.step_size)
        attach_step_size(self, start, learned=config.learn_step_size)
        self.similarity = config.similarity
        self.temperature = config.temperature
        self.step_count = config.steps
        self.auxiliary = config.auxiliary
        self.config = config

    @property
    def step_size(self) -> Tensor:
        """α = |raw step size|: [], [d] or [C, d]."""
        return self.raw_step_size.abs()

    def steps(self) -> InnerSteps:
        """How the head is moved for each query."""
        return InnerSteps(count=self.step_count, size=self.step_size)

    def forward(self, images: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → adapted and unadapted logits [B, C]."""
        features = self._features(images)
        with full_precision(features):
            return self.classify(features)

    def loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Mean cross-entropy [] of the adapted prediction, plus λ times the auxiliary head's (eq. 14, earlier paper).

        The auxiliary head is not asked for an answer: it is there to make the features tell classes apart.
        """
        features = self._features(batch.inputs)
        with full_precision(features):
            prediction = self.classify(features)
            loss = cross_entropy(prediction.logits, batch.targets)
            if self.auxiliary_head is not None:
                loss = loss + self.auxiliary * cross_entropy(self.auxiliary_head(features), batch.targets)
            return loss, prediction

    def _features(self, images: Tensor) -> Tensor:
        features: Tensor = self.backbone(images)
        return features.to(self.head.weight.dtype)

    def classify(self, features: Tensor) -> Prediction:
        """Features z [B, d] → adapted and unadapted logits [B, C]."""
        keys, values, keep = self.dictionary.entries_for(features.shape[0])
        weights = attention(similarity(features, key_index(keys, self.similarity)), self.temperature, keep)
        problem, steps = inner_problem(self.head, keys, values), self.steps()
        return Prediction(
            logits=adapted_logits(features, weights, problem, self.head.weight, steps, cheapest_form(problem, steps)),
            unadapted_logits=self.head(features),
        )

    def attention_over_all(self, features: Tensor) -> Tensor:
        """Features z [B, d] → ω [B, S] over all entries, none dropped."""
        return attention(similarity(features, key_index(self.dictionary.keys, self.similarity)), self.temperature)

    @property
    def compiled_part(self) -> nn.Module:
        """The backbone."""
        return self.backbone

    def parameter_groups(self) -> list[ParameterGroup]:
        """The backbone with weight decay; heads, dictionary and step size without."""
        auxiliary = () if self.auxiliary_head is None else tuple(self.auxiliary_head.parameters())
        return [
            ParameterGroup(name="backbone", parameters=tuple(self.backbone.parameters()), decay=True),
            ParameterGroup(name="head", parameters=(*self.head.parameters(), *auxiliary), decay=False),
            *adaptation_groups(self.config, self.dictionary.keys, self.dictionary.learned_values, self.raw_step_size),
        ]
