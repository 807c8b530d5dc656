"""Meta-Neighborhoods for regression: the whole perceptron is adapted to every input (section 4.3, appendix B).

Shapes: inputs x [B, F], keys k [S, F] in the space of the inputs, attention ω [B, S]. Values v are [S] and answers [B]
for one target, [S, T] and [B, T] for several.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from mntrain.errors import ConfigError
from mntrain.layers.attention import (
    Similarity,
    attention,
    comparable_similarity,
    key_index,
    similarity,
)
from mntrain.layers.full_precision import full_precision
from mntrain.layers.mlp import Mlp, as_values
from mntrain.models.base import (
    Batch,
    Estimate,
    ParameterGroup,
    Regressor,
    TargetRanges,
    TrainingPhase,
)
from mntrain.models.data_start import DataStart
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.dictionary import (
    TARGET_DISTANCE,
    EntryDropout,
    adaptation_groups,
    attach_step_size,
    initial_keys,
)
from mntrain.models.meta_neighborhoods.inner_mlp import adapted_values, layer_tables, weight_change
from mntrain.models.meta_neighborhoods.start import VALUE_CHANGE, row_start, set_step_size, warm_up_epochs
from mntrain.models.queries import mean_weight_change, spread_queries
from mntrain.models.vanilla.regression import VanillaRegressor


class MetaNeighborhoodsRegressor(Regressor):
    """A perceptron f adapted to every input by one step in all layers (eq. 1 with the squared error).

    φ' = φ − α ∇_φ Σ_j ω(x, k_j) ‖f_φ(k_j) − v_j‖².

    The errors of several targets are summed, so the last layer's row of each moves as it would for that target alone.

    Args:
        config: dictionary and inner step.
        network: f, with an output for each target.
        target_ranges: lowest and highest training value of each target, between which its values start.

    Raises:
        ConfigError: a setting that only a classifier can have.
    """

    raw_step_size: Tensor

    def __init__(self, config: MetaNeighborhoodsConfig, network: Mlp, target_ranges: TargetRanges) -> None:
        super().__init__()
        _check(config)
        self.network = network
        self.keys = nn.Parameter(initial_keys(config, network.features))
        columns = [torch.empty(config.entries).uniform_(*target_range) for target_range in target_ranges]
        self.values = nn.Parameter(as_values(torch.stack(columns, dim=-1)))
        attach_step_size(self, torch.tensor(config.first_step_size), learned=config.learn_step_size)
        self.dropout = EntryDropout.from_config(config)
        self.config = config

    @property
    def step_size(self) -> Tensor:
        """α = |raw step size| []."""
        return self.raw_step_size.abs()

    def forward(self, inputs: Tensor) -> Estimate:
        """Standardised inputs [B, F] → adapted and unadapted values [B]."""
        with full_precision(inputs):
            keys, values, keep = self.entries_for(inputs.shape[0])
            weights = attention(similarity(inputs, key_index(keys, self.similarity)), self.temperature, keep)
            layers = self.network.parameters_of_layers()
            tables = layer_tables(keys, values, layers)
            return Estimate(
                values=adapted_values(inputs, weights, layers, tables, self.step_size),
                unadapted_values=as_values(self.network(inputs)),
            )

    def seed_draws(self, seed: int) -> None:
        """Seed the dropout of entries."""
        self.dropout.seed(seed)

    def warm_up(self, epochs: int, *, trained: bool) -> int | None:
        """Count the epochs that train the network alone; none by default, since keys are rows, not features."""
        return warm_up_epochs(self.config, epochs, needed=False)

    def warm_up_phases(self) -> tuple[TrainingPhase, ...]:
        """The network, with nothing adapted."""
        return (TrainingPhase(objective=self._unadapted_loss, groups=("network",)),)

    def _unadapted_loss(self, batch: Batch) -> tuple[Tensor, Estimate]:
        """Compute the mean squared error [] of the network's own values."""
        with full_precision(batch.inputs):
            values = as_values(self.network(batch.inputs))
            return mse_loss(values, batch.targets), Estimate(values=values)

    @torch.no_grad()
    def start_from(self, queries: Tensor, targets: Tensor, *, seed: int) -> DataStart:
        """Place entries on rows x [N, F] with standardised ``targets`` [N] or [N, T], and set α."""
        keys, values = row_start(queries, targets.reshape(len(targets), -1), self.config, seed)
        self.keys.copy_(keys)
        self.values.copy_(as_values(values))
        sample = spread_queries(queries)
        change = set_step_size(
            self.raw_step_size, self.config, lambda: mean_weight_change(self, sample), usual=VALUE_CHANGE
        )
        return DataStart(
            entries=len(keys),
            examples=len(queries),
            entries_of_classes=(),
            step_size=float(self.step_size),
            weight_change=change,
        )

    def entries_for(self, batch: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys [S', F], values [S'] or [S', T], and mask [B, S'] for ``batch`` queries: some of them while training."""
        if not self.training:
            return self.keys, self.values, None
        kept = self.dropout.draw(batch, self.keys.shape[0], self.keys.device)
        if kept.positions is None:
            return self.keys, self.values, kept.mask
        return self.keys[kept.positions], self.values[kept.positions], None

    @property
    def similarity(self) -> Similarity:
        """Kind of similarity between inputs and keys."""
        return self.config.similarity

    @property
    def temperature(self) -> float:
        """T of the attention."""
        return self.config.temperature

    @property
    def step_count(self) -> int:
        """Inner steps: 1, the only number that the closed form of all layers allows."""
        return self.config.steps

    def entry_keys(self) -> Tensor:
        """Keys k [S, F]."""
        return self.keys

    def entry_values(self) -> Tensor:
        """Standardised targets v [S], or [S, T] of several."""
        return self.values

    def queries(self, inputs: Tensor) -> Tensor:
        """Standardised inputs [B, F], which are compared with keys as they are."""
        return inputs

    def attention_over_all(self, queries: Tensor) -> Tensor:
        """Standardised inputs [B, F] → ω [B, S] over all entries, none dropped."""
        return attention(similarity(queries, key_index(self.keys, self.similarity)), self.temperature)

    def answers_from(self, queries: Tensor, keep: Tensor) -> Tensor:
        """Values [B] of standardised inputs [B, F], each with the entries of its row of ``keep``, boolean [B, S]."""
        weights = attention(similarity(queries, key_index(self.keys, self.similarity)), self.temperature, keep)
        layers = self.network.parameters_of_layers()
        return adapted_values(queries, weights, layers, layer_tables(self.keys, self.values, layers), self.step_size)

    def comparable_similarity(self, queries: Tensor, entries: slice | Tensor) -> Tensor:
        """Similarity [B, S'] of standardised inputs [B, F] to some entries, comparable between inputs too."""
        return comparable_similarity(queries, key_index(self.keys[entries], self.similarity))

    def weight_change(self, queries: Tensor) -> Tensor:
        """Standardised inputs [B, F] → relative change [B] of all weights by the inner update."""
        layers = self.network.parameters_of_layers()
        tables = layer_tables(self.keys, self.values, layers)
        return weight_change(self.attention_over_all(queries), layers, tables, self.step_size)

    @property
    def compiled_part(self) -> nn.Module:
        """The network."""
        return self.network

    def plain(self) -> VanillaRegressor:
        """The network as it is."""
        return VanillaRegressor(self.network)

    def parameter_groups(self) -> list[ParameterGroup]:
        """The network with weight decay; dictionary and step size without."""
        return [
            ParameterGroup(name="network", parameters=tuple(self.network.parameters()), decay=True),
            *adaptation_groups(self.config, self.keys, self.values, self.raw_step_size, TARGET_DISTANCE),
        ]


def _check(config: MetaNeighborhoodsConfig) -> None:
    if config.steps != 1:
        raise ConfigError(
            f"meta_neighborhoods.steps is {config.steps}; regression takes exactly 1, since the closed form of the "
            "update of all layers holds for the first step only."
        )
    if config.step_size_form != "scalar":
        raise ConfigError(
            f"meta_neighborhoods.step_size_form is {config.step_size_form!r}; regression takes 'scalar' only, since "
            "weights of their own for every query would have to be built for the others."
        )
    if config.values != "learned":
        raise ConfigError(
            f"meta_neighborhoods.values is {config.values!r}; regression takes 'learned' only, since fixed values are "
            "classes."
        )
    if config.auxiliary:
        raise ConfigError(
            f"meta_neighborhoods.auxiliary is {config.auxiliary}; regression takes 0, since there are no features "
            "that a second head could share."
        )
    for field in ("head", "scale", "value_logit_std", "confidence", "entries_by"):
        value, usual = getattr(config, field), getattr(MetaNeighborhoodsConfig, field)
        if value != usual:
            raise ConfigError(
                f"meta_neighborhoods.{field} is {value!r}; regression has no classes that it could act on, so leave it "
                "out."
            )
