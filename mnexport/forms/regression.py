"""Static forms of regressors: rows in, values in the target's own units out.

Shapes: B queries, S entries, F features; layer l maps i_l to o_l. rows [B, F], attention ω [B, S], value [B, 1];
tables of layer l: A_l [S, i_l], D_l [S, o_l].
"""

import copy

import torch
from torch import Tensor, nn

from mnexport.forms.constants import Constants
from mntrain.data.standardization import Standardization
from mntrain.layers.attention import KeyIndex, attention, key_index, similarity
from mntrain.models.meta_neighborhoods.inner_mlp import LayerTable, adapted_values, layer_tables
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor


class DeployedRegressor(nn.Module):
    """Regressor of rows, in the graph that is exported.

    Args:
        standardization: rows in the columns' own units → standardised rows; it has the scale of the target, too.
        estimator: standardised rows → standardised values [B].
    """

    def __init__(self, standardization: Standardization, estimator: nn.Module) -> None:
        super().__init__()
        self.standardization = copy.deepcopy(standardization)
        self.estimator = estimator
        self.eval().requires_grad_(False)

    def forward(self, rows: Tensor) -> tuple[Tensor]:
        """Estimate values [B, 1] of rows float32 [B, F]."""
        values: Tensor = self.estimator(self.standardization(rows))
        return (unscaled(values, self.standardization).unsqueeze(-1),)


def unscaled(values: Tensor, standardization: Standardization) -> Tensor:
    """Convert standardised values to the target's own units."""
    scale = standardization.config
    assert isinstance(scale.target_std, float)
    assert isinstance(scale.target_mean, float)
    return values * scale.target_std + scale.target_mean


class PlainEstimator(nn.Module):
    """Perceptron without adaptation."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)

    def forward(self, inputs: Tensor) -> Tensor:
        """Estimate standardised values [B] of standardised rows [B, F]."""
        outputs: Tensor = self.network(inputs)
        return outputs.squeeze(-1)


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
        """Estimate standardised values [B] of standardised rows [B, F]."""
        weights = self.weights(inputs)
        tables: list[LayerTable] = [table() for table in self.tables]
        return adapted_values(inputs, weights, self.network.parameters_of_layers(), tables, self.step_size)
