"""Settings of the vanilla family."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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
        extra_entries: S of a dictionary of the same size: instead of extra_parameters, as many as S entries and their α
            have, S·(d+C) + 1. dictionary takes meta_neighborhoods.entries of the recipe.
    """

    head: HeadKind = "cosine"
    scale: float = 10.0
    extra_parameters: int = 0
    extra_entries: int | Literal["dictionary"] = 0

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
        if isinstance(self.extra_entries, int) and not 0 <= self.extra_entries <= 10**7:
            raise ConfigError(
                f"vanilla.extra_entries is {self.extra_entries}; it must be dictionary, or from 0 (no extra layer) to "
                "10^7."
            )
        if self.extra_parameters and self.extra_entries:
            raise ConfigError(
                f"vanilla.extra_parameters is {self.extra_parameters} and vanilla.extra_entries is "
                f"{self.extra_entries}, which both size the extra layer; leave one of them out."
            )

    def added_parameters(self, features: int, classes: int) -> int:
        """Count the parameters that the extra layer shall add to a network of d ``features`` and C ``classes``.

        Raises:
            ConfigError: the size of the dictionary is not known.
        """
        if self.extra_entries == "dictionary":
            raise ConfigError(
                "vanilla.extra_entries is 'dictionary', which only a recipe can count; give the number of entries."
            )
        return self.extra_entries * (features + classes) + 1 if self.extra_entries else self.extra_parameters


def with_entries_counted(config: VanillaConfig, sections: Mapping[str, Any]) -> VanillaConfig:
    """Replace extra_entries ``dictionary`` by the entries of the recipe's section ``meta_neighborhoods``."""
    if config.extra_entries != "dictionary":
        return config
    return replace(config, extra_entries=sections["meta_neighborhoods"]["entries"])
