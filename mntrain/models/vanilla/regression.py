"""A perceptron that estimates values, nothing adapted: the baseline of regression.

Shapes: inputs [B, F]; values [B] of one target, [B, T] of several.
"""

from torch import Tensor, nn

from mntrain.errors import ConfigError
from mntrain.layers.full_precision import full_precision
from mntrain.layers.mlp import Mlp, as_values
from mntrain.models.base import Estimate, ParameterGroup, Regressor, TargetRanges
from mntrain.models.vanilla.config import VanillaConfig


class VanillaRegressor(Regressor):
    """Regressor f(x) of an :class:`Mlp` with an output for each target."""

    def __init__(self, network: Mlp) -> None:
        super().__init__()
        self.network = network

    @classmethod
    def from_config(cls, config: VanillaConfig, network: Mlp, target_ranges: TargetRanges) -> "VanillaRegressor":
        """Build an untrained regressor; the ranges of the targets do not matter to it.

        Raises:
            ConfigError: a setting that only a classifier can have.
        """
        for field in ("extra_parameters", "extra_entries"):
            if getattr(config, field):
                raise ConfigError(
                    f"vanilla.{field} is {getattr(config, field)}; regression takes 0, since the size of its "
                    "perceptron is a setting of its own."
                )
        for field in ("head", "scale"):
            if getattr(config, field) != getattr(VanillaConfig, field):
                raise ConfigError(
                    f"vanilla.{field} is {getattr(config, field)!r}; regression has no classes that it could act on, "
                    "so leave it out."
                )
        return cls(network)

    def forward(self, inputs: Tensor) -> Estimate:
        """Standardised inputs [B, F] → values."""
        with full_precision(inputs):
            return Estimate(values=as_values(self.network(inputs)))

    @property
    def compiled_part(self) -> nn.Module:
        """The network."""
        return self.network

    def plain(self) -> "VanillaRegressor":
        """The same network."""
        return VanillaRegressor(self.network)

    def parameter_groups(self) -> list[ParameterGroup]:
        """The network, with weight decay."""
        return [ParameterGroup(name="network", parameters=tuple(self.network.parameters()), decay=True)]
