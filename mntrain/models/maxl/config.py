"""Settings of the MAXL family."""

from dataclasses import dataclass

from mntrain.config_fields import require_finite
from mntrain.errors import ConfigError
from mntrain.layers.heads import HEAD_KINDS, HeadKind


@dataclass(frozen=True, kw_only=True)
class MaxlConfig:
    """Meta auxiliary learning (Liu, Davison and Johns 2019), the baseline of the Meta-Neighborhoods tables.

    Args:
        hierarchy: ψ, auxiliary classes of every class.
        auxiliary: weight of the auxiliary loss.
        entropy: weight of the entropy term that keeps generated labels apart.
        focus: γ of the focal loss; 0 is cross-entropy.
        virtual_step: size of the virtual step of gradient descent that the label generator is judged by.
        generator_rate: learning rate of the label generator, as a factor on the training rate.
        head: cosine or dot (dot product with bias), of all three classifiers.
        scale: initial value of the learned scale τ of the cosine logits.
    """

    hierarchy: int = 5
    auxiliary: float = 1.0
    entropy: float = 0.2
    focus: float = 2.0
    virtual_step: float = 0.01
    generator_rate: float = 0.1
    head: HeadKind = "cosine"
    scale: float = 10.0

    def __post_init__(self) -> None:
        def refuse(field: str, limit: str) -> ConfigError:
            return ConfigError(f"maxl.{field} is {getattr(self, field)!r}; it must be {limit}.")

        require_finite("maxl", self)
        if not 2 <= self.hierarchy <= 1000:
            raise refuse("hierarchy", "from 2 to 1000 (the authors use 5)")
        for field in ("auxiliary", "entropy", "focus"):
            if not 0 <= getattr(self, field) <= 1000:
                raise refuse(field, "from 0 to 1000")
        for field in ("virtual_step", "generator_rate", "scale"):
            if not 0 < getattr(self, field) <= 1000:
                raise refuse(field, "above 0 and at most 1000")
        if self.head not in HEAD_KINDS:
            raise refuse("head", " or ".join(HEAD_KINDS))
