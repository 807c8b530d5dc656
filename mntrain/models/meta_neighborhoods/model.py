"""Meta-Neighborhoods: a classifier adapted to every input by gradient steps on its learned neighbors.

Shapes: images [B, channels, H, W], features z [B, d], attention ω [B, S], logits [B, C].
"""

import torch
from torch import Tensor, nn

from mntrain.backbones.config import feature_count
from mntrain.layers.attention import attention, comparable_similarity, key_index, similarity, unit
from mntrain.layers.full_precision import full_precision
from mntrain.layers.heads import CosineHead, Head, build_head
from mntrain.models.backbone_groups import backbone_groups, group_names
from mntrain.models.base import Batch, Classifier, ParameterGroup, Prediction, TrainingPhase
from mntrain.models.data_start import DataStart
from mntrain.models.family import BuildBackbone
from mntrain.models.meta_neighborhoods.adaptation import (
    InnerSteps,
    adapted_logits,
    cheapest_form,
    inner_problem,
    weight_change,
)
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import (
    Dictionary,
    adaptation_groups,
    attach_step_size,
    initial_step_size,
)
from mntrain.models.meta_neighborhoods.inner import adapted_weight, cosine_problem
from mntrain.models.meta_neighborhoods.logistic import logistic_weights
from mntrain.models.meta_neighborhoods.start import (
    CLASS_CHANGE,
    check_confidence,
    class_start,
    set_step_size,
    warm_up_epochs,
)
from mntrain.models.neighbors import Prototypes
from mntrain.models.queries import mean_weight_change, spread_queries
from mntrain.models.vanilla.model import Vanilla


class MetaNeighborhoods(Classifier):
    """A classifier adapted to every input, with logits f_w'(z) (eq. 3, algorithm 1).

    z = μ_θ(x); w' = w − α ∇_w Σ_j ω(z, k_j) CE(f_w(k_j), v_j), once or more. Nothing is detached:
    back-propagation through :meth:`forward` yields the complete meta-gradient.
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
        start = initial_step_size(config.step_size_form, self.head.weight, config.first_step_size)
        attach_step_size(self, start, learned=config.learn_step_size)
        self.similarity = config.similarity
        self.temperature = config.temperature
        self.step_count = config.steps
        self.auxiliary = config.auxiliary
        self.config = config

    @classmethod
    def from_config(
        cls, config: MetaNeighborhoodsConfig, build_backbone: BuildBackbone, classes: int
    ) -> "MetaNeighborhoods":
        """Build an untrained classifier of C ``classes`` on a new backbone.

        Raises:
            ConfigError: with this confidence entries would not stand for the class of their examples.
        """
        check_confidence(config, classes)
        backbone = build_backbone()
        features = feature_count(backbone)
        # The head first: it starts as that of a vanilla network of the same seed.
        head = build_head(config.head, features, classes, config.scale)
        dictionary = Dictionary(config, features=features, classes=classes)
        auxiliary = build_head(config.head, features, classes, config.scale) if config.auxiliary else None
        return cls(backbone, (head, auxiliary), dictionary, config)

    @property
    def step_size(self) -> Tensor:
        """α = |raw step size|: [], [d] or [C, d]."""
        return self.raw_step_size.abs()

    def steps(self) -> InnerSteps:
        """Steps that adapt the head to a query."""
        return InnerSteps(count=self.step_count, size=self.step_size)

    def forward(self, images: Tensor) -> Prediction:
        """Normalised images [B, channels, H, W] → adapted and unadapted logits [B, C]."""
        features = self.queries(images)
        with full_precision(features):
            return self.classify(features)

    def loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Compute the mean cross-entropy [] of the adapted prediction, plus λ times the auxiliary head's.

        The auxiliary head (eq. 14 of the earlier paper) never predicts: it trains the features to tell classes apart.
        """
        features = self.queries(batch.inputs)
        with full_precision(features):
            return self._loss(features, batch.targets, self.classify(features))

    def _unadapted_loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Compute the loss [] without a dictionary."""
        features = self.queries(batch.inputs)
        with full_precision(features):
            return self._loss(features, batch.targets, Prediction(logits=self.head(features)))

    def _loss(self, features: Tensor, targets: Tensor, prediction: Prediction) -> tuple[Tensor, Prediction]:
        loss = self.cross_entropy(prediction.logits, targets)
        if self.auxiliary_head is not None:
            loss = loss + self.auxiliary * self.cross_entropy(self.auxiliary_head(features), targets)
        return loss, prediction

    def warm_up(self, epochs: int, *, trained: bool) -> int | None:
        """Count the epochs that train backbone and heads alone before keys are taken from features."""
        learns_features = any(parameter.requires_grad for parameter in self.backbone.parameters())
        placed_head = self.config.head_start == "logistic"
        return warm_up_epochs(self.config, epochs, needed=not trained and (learns_features or not placed_head))

    def warm_up_phases(self) -> tuple[TrainingPhase, ...]:
        """Backbone and heads, with nothing adapted."""
        return (TrainingPhase(objective=self._unadapted_loss, groups=(*group_names(self.backbone), "head")),)

    @torch.no_grad()
    def start_from(self, queries: Tensor, targets: Tensor, *, seed: int) -> DataStart:
        """Place entries on features z [N, d] of examples with ``targets`` int64 [N], perhaps the head, and set α."""
        if self.config.head_start == "logistic":
            self.head.weight.copy_(logistic_weights(queries, targets, len(self.head.weight), seed))
        keys, counts = class_start(queries, targets, self.config, self.head.weight.shape[0], seed)
        self.dictionary.place(keys, counts, self.config.confidence)
        sample = spread_queries(queries)
        change = set_step_size(
            self.raw_step_size, self.config, lambda: mean_weight_change(self, sample), usual=CLASS_CHANGE
        )
        return DataStart(
            entries=len(keys),
            examples=len(queries),
            entries_of_classes=tuple(counts.tolist()),
            step_size=float(self.step_size.mean()),
            weight_change=change,
        )

    def seed_draws(self, seed: int) -> None:
        """Seed the dropout of entries."""
        self.dictionary.dropout.seed(seed)

    def queries(self, inputs: Tensor) -> Tensor:
        """Normalised images [B, channels, H, W] → features z [B, d], in the precision of the head."""
        features: Tensor = self.backbone(inputs)
        return features.to(self.head.weight.dtype)

    def classify(self, queries: Tensor) -> Prediction:
        """Features z [B, d] → adapted and unadapted logits [B, C]."""
        keys, values, keep = self.dictionary.entries_for(queries.shape[0])
        weights = attention(similarity(queries, key_index(keys, self.similarity)), self.temperature, keep)
        return Prediction(logits=self._adapted(queries, weights, keys, values), unadapted_logits=self.head(queries))

    def logits_among(self, queries: Tensor, entries: Tensor, temperature: float) -> Tensor:
        """Adapted logits [B, C] of features z [B, d], with the entries at ``entries`` int64 [S'] alone."""
        keys, values = self.dictionary.keys[entries], self.dictionary.values(entries)
        weights = attention(similarity(queries, key_index(keys, self.similarity)), temperature)
        return self._adapted(queries, weights, keys, values)

    def answers_from(self, queries: Tensor, keep: Tensor) -> Tensor:
        """Adapted logits [B, C] of features z [B, d], each with the entries of its row of ``keep``, boolean [B, S]."""
        keys, values = self.dictionary.keys, self.dictionary.values()
        weights = attention(similarity(queries, key_index(keys, self.similarity)), self.temperature, keep)
        return self._adapted(queries, weights, keys, values)

    def _adapted(self, queries: Tensor, weights: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        problem, steps = inner_problem(self.head, keys, values), self.steps()
        return adapted_logits(queries, weights, problem, self.head.weight, steps, cheapest_form(problem, steps))

    def entry_keys(self) -> Tensor:
        """Keys k [S, d]."""
        return self.dictionary.keys

    def entry_values(self) -> Tensor:
        """Class probabilities v [S, C]."""
        return self.dictionary.values()

    def entry_labels(self) -> Tensor:
        """Likeliest class of every entry, int64 [S]."""
        return self.dictionary.values().argmax(dim=-1)

    def attention_over_all(self, queries: Tensor) -> Tensor:
        """Features z [B, d] → ω [B, S] over all entries, none dropped."""
        return attention(similarity(queries, key_index(self.dictionary.keys, self.similarity)), self.temperature)

    def comparable_similarity(self, queries: Tensor, entries: slice | Tensor) -> Tensor:
        """Similarity [B, S'] of features z [B, d] to some entries, comparable between features too."""
        return comparable_similarity(queries, key_index(self.dictionary.keys[entries], self.similarity))

    def prototypes(self, queries: Tensor) -> Prototypes | None:
        """Rows of the cosine head at unit length, before and after adaptation; None for a dot-product head."""
        if not isinstance(self.head, CosineHead):
            return None
        weights = self.attention_over_all(queries)
        problem = cosine_problem(self.dictionary.keys, self.dictionary.values(), self.head.weight, self.head.scale)
        adapted = adapted_weight(weights, problem, self.head.weight, self.step_size, self.step_count)
        return Prototypes(unadapted=problem.prototypes, adapted=unit(adapted))

    def weight_change(self, queries: Tensor) -> Tensor:
        """Features z [B, d] → relative change [B] of the head's weights by the inner update."""
        problem = inner_problem(self.head, self.dictionary.keys, self.dictionary.values())
        return weight_change(self.attention_over_all(queries), problem, self.head.weight, self.steps())

    @property
    def compiled_part(self) -> nn.Module:
        """The backbone."""
        return self.backbone

    def plain(self) -> Vanilla:
        """The backbone with its unadapted head."""
        return Vanilla(self.backbone, self.head)

    def parameter_groups(self) -> list[ParameterGroup]:
        """The backbone with weight decay; heads, dictionary and step size without."""
        auxiliary = () if self.auxiliary_head is None else tuple(self.auxiliary_head.parameters())
        return [
            *backbone_groups(self.backbone),
            ParameterGroup(
                name="head",
                parameters=(*self.head.parameters(), *auxiliary),
                decay=False,
                rate=self.config.head_rate,
            ),
            *adaptation_groups(self.config, self.dictionary.keys, self.dictionary.learned_values, self.raw_step_size),
        ]
