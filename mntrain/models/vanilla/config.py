"""Settings of the vanilla family."""

from dataclasses import dataclass

from mntrain.errors import ConfigError
from mntrain.finite import require_finite


@dataclass(frozen=True, kw_only=True)
class VanillaConfig:
    """The same network without a dictionary.

    Args:
        scale: initial value of the learned scale τ of the cosine logits.
    """

    scale: float = 10.0

    def __post_init__(self) -> None:
        require_finite("vanilla", self)
        if not self.scale > 0:
            raise ConfigError(f"vanilla.scale is {self.scale}; the scale of the logits must be above 0 (10 is usual).")
