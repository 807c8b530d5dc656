"""Settings of the Meta-Neighborhoods family."""

from dataclasses import dataclass

from mntrain.errors import ConfigError
from mntrain.finite import require_finite
from mntrain.models.meta_neighborhoods.dictionary import DropoutMode


@dataclass(frozen=True, kw_only=True)
class MetaNeighborhoodsConfig:
    """Dictionary and inner step (defaults: the paper's appendix A.2 and its authors' code).

    Args:
        entries: S, learned neighbours in the dictionary.
        temperature: T of the attention; smaller is peakier, 1/T of 3 to 7 works best.
        key_std: standard deviation of the initial keys.
        value_logit_std: standard deviation of the initial value logits.
        dropout: share of entries dropped at random while training.
        dropout_mode: per_sample draws a mask for every query, per_batch one subset for the batch (cheaper).
        step_size: initial value of the learned inner step size α.
        scale: initial value of the learned scale τ of the cosine logits.
    """

    entries: int = 1000
    temperature: float = 0.2
    key_std: float = 0.05
    value_logit_std: float = 0.1
    dropout: float = 0.5
    dropout_mode: DropoutMode = "per_sample"
    step_size: float = 0.05
    scale: float = 10.0

    def __post_init__(self) -> None:
        require_finite("meta_neighborhoods", self)

        def refuse(field: str, limit: str) -> ConfigError:
            return ConfigError(f"meta_neighborhoods.{field} is {getattr(self, field)!r}; it must be {limit}.")

        if self.entries < 1:
            raise refuse("entries", "at least 1 (the paper uses 5000 for 10 classes)")
        if not self.temperature > 0:
            raise refuse("temperature", "above 0 (the paper uses 0.2)")
        if not 0 <= self.dropout < 1:
            raise refuse("dropout", "at least 0 and below 1 (the paper uses 0.5)")
        if self.dropout_mode not in ("per_sample", "per_batch"):
            raise refuse("dropout_mode", "per_sample or per_batch")
        for field in ("key_std", "value_logit_std", "scale"):
            if not getattr(self, field) > 0:
                raise refuse(field, "above 0")
        if self.step_size < 0:
            raise refuse("step_size", "0 or above (0.05 is the start the authors use)")
