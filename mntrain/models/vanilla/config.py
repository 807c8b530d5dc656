"""Settings of the vanilla family."""

from dataclasses import dataclass

from mntrain.errors import ConfigError
from mntrain.finite import require_finite
from mntrain.layers.head import HEAD_KINDS, HeadKind


@dataclass(frozen=True, kw_only=True)
class VanillaConfig:
    """The same network without a dictionary.

    Args:
        head: cosine or dot (dot product with bias).
        scale: initial value of the learned scale τ of the cosine logits.
    """

    head: HeadKind = "cosine"
    scale: float = 10.0

    def __post_init__(self) -> None:
        require_finite("vanilla", self)
        if self.head not in HEAD_KINDS:
            raise ConfigError(f"vanilla.head is {self.head!r}; it must be {' or '.join(HEAD_KINDS)}.")
        if not self.scale > 0:
            raise ConfigError(f"vanilla.scale is {self.scale}; the scale of the logits must be above 0 (10 is usual).")
