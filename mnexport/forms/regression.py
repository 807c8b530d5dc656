"""Static forms of regressors: rows in, values in the target's own units out.

Shapes: B queries, S entries, F features, T targets; layer l maps i_l to o_l. rows [B, F], attention ω [B, S], value
[B, T]; tables of layer l: A_l [S, i_l], D_l [S, o_l]. Standardised values are [B] for one target, [B, T] for several.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from mnexport.forms.constants import Constants
from mntrain.data.standardization import Standardization, StandardizationConfig
from mntrain.layers.attention import KeyIndex, attention, key_index, similarity
from mntrain.layers.mlp import as_values
from mntrain.models.meta_neighborhoods.inner_mlp import LayerTable, adapted_values, layer_tables
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor


class DeployedRegressor(nn.Module):
    """Regressor of rows, in the graph that is exported.

    Args:
        standardization: rows in the columns' own units → standardised rows; it has the scale of the targets, too.
        estimator: standardised rows → standardised values.
    """

    def __init__(self, standardization: Standardization, estimator: nn.Module) -> None:
        super().__init__()
        self.standardization = copy.deepcopy(standardization)
        self.estimator = estimator
        self.eval().requires_grad_(False)

    def forward(self, rows: Tensor) -> tuple[Tensor]:
        """Estimate values [B, T] of rows float32 [B, F]."""
        return (self.in_own_units(self.estimator(self.standardization(rows))),)

    def in_own_units(self, values: Tensor) -> Tensor:
        """Convert standardised values to values [B, T] in the targets' own units."""
        return as_columns(unscaled(values, self.standardization.config))


def unscaled(values: Tensor, scale: StandardizationConfig) -> Tensor:
    """Convert standardised values [B] or [B, T] to the targets' own units, each by its own mean and deviation."""
    mean: Any = scale.target_mean
    std: Any = scale.target_std
    if values.dim() == 2:
        mean, std = values.new_tensor(mean), values.new_tensor(std)
    scaled: Tensor = values * std + mean
    return scaled


def as_columns(values: Tensor) -> Tensor:
    """Give values [B] of one target an axis of targets: [B, 1]; those of several have one."""
    return values.unsqueeze(-1) if values.dim() == 1 else values


class PlainEstimator(nn.Module):
    """Perceptron without adaptation."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)

    def forward(self, inputs: Tensor) -> Tensor:
        """Estimate standardised values of standardised rows [B, F]."""
        return as_values(self.network(inputs))


class AdaptiveEstimator(nn.Module):
    """Perceptron with all its layers adapted; the tables of its layers are constants."""

    step_size: Tensor

    def __init__(self, model: MetaNeighborhoodsRegressor) -> None:
        super().__init__()
        self.temperature = model.config.temperature
        self.network = copy.deepcopy(model.network)
        with torch.no_grad():
            self.index: Constants[KeyIndex] = Constants(key_index(model.keys, model.config.similarity))
            tables = layer_tables(model.keys, model.values, model.network.parameters_of_layers())
            self.tables = nn.ModuleList(Constants(table) for table in tables)
            self.register_buffer("step_size", model.step_size.detach().clone())

    def weights(self, inputs: Tensor) -> Tensor:
        """Compute the attention [B, S] of standardised rows [B, F]."""
        return attention(similarity(inputs, self.index()), self.temperature)

    def forward(self, inputs: Tensor) -> Tensor:
        """Estimate standardised values of standardised rows [B, F]."""
        weights = self.weights(inputs)
        tables: list[LayerTable] = [table() for table in self.tables]
        return adapted_values(inputs, weights, self.network.parameters_of_layers(), tables, self.step_size)
