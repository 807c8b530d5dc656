"""Settings of the vanilla family."""

from dataclasses import dataclass

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.layers.heads import HEAD_KINDS, HeadKind


@dataclass(frozen=True, kw_only=True)
class VanillaConfig:
    """The same network without a dictionary.

    Args:
        head: cosine or dot (dot product with bias).
        scale: initial value of the learned scale τ of the cosine logits.
        extra_parameters: about how many an extra fully connected layer below the head adds; S·(d+C) is as many as a
            dictionary has; 0 adds no layer.
    """

    head: HeadKind = "cosine"
    scale: float = 10.0
    extra_parameters: int = 0

    def __post_init__(self) -> None:
        require_finite("vanilla", self)
        if self.head not in HEAD_KINDS:
            raise ConfigError(f"vanilla.head is {self.head!r}; it must be {' or '.join(HEAD_KINDS)}.")
        if not self.scale > 0:
            raise ConfigError(f"vanilla.scale is {self.scale}; the scale of the logits must be above 0 (10 is usual).")
        if not 0 <= self.extra_parameters <= 10**9:
            raise ConfigError(
                f"vanilla.extra_parameters is {self.extra_parameters}; it must be from 0 (no extra layer) to 10^9 "
                "(S·(d+C) is as many as a dictionary of S entries has)."
            )
