"""A perceptron that estimates a value, nothing adapted: the baseline of regression.

Shapes: inputs [B, F], values [B].
"""

from torch import Tensor, nn

from mntrain.layers.mlp import Mlp
from mntrain.layers.precision import full_precision
from mntrain.models.base import Estimate, ParameterGroup, Regressor


class VanillaRegressor(Regressor):
    """f(x) of an :class:`Mlp` with one output."""

    def __init__(self, network: Mlp) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Estimate:
        """Standardised inputs [B, F] → values [B]."""
        with full_precision(inputs):
            return Estimate(values=self.network(inputs).squeeze(-1))

    @property
    def compiled_part(self) -> nn.Module:
        """The network."""
        return self.network

    def parameter_groups(self) -> list[ParameterGroup]:
        """The network, with weight decay."""
        return [ParameterGroup(name="network", parameters=tuple(self.network.parameters()), decay=True)]
