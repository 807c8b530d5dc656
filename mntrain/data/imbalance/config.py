"""Configuration of a long-tailed training split (``data.imbalance``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from mntrain.errors import ConfigError

ImbalanceKind = Literal["none", "exponential", "pareto"]
ClassOrder = Literal["label", "shuffled"]
PUBLISHED_POWER = 6.0
"""Power of the Pareto distribution behind ImageNet-LT and Places-LT (Liu et al., 2019, section 4.1)."""


@dataclass(frozen=True, kw_only=True)
class ImbalanceConfig:
    """Sizes of the classes of the training split; validation and test stay as they are.

    Raises:
        ConfigError: a field has a value that cannot work, or two fields contradict each other.
    """

    kind: ImbalanceKind = "none"
    """``exponential`` falls from class to class by the same factor; ``pareto`` follows a Pareto distribution, of few
    large and many small classes; ``none`` keeps every training example."""
    ratio: float | None = None
    """Size of the largest class over that of the smallest, such as 100; or give ``smallest``."""
    largest: int | None = None
    """Examples of the largest class; None takes all that the largest class has."""
    smallest: int | None = None
    """Examples of the smallest class; or give ``ratio``."""
    power: float = PUBLISHED_POWER
    """Power of the Pareto distribution (``pareto`` only); the larger, the fewer classes are large."""
    order: ClassOrder = "label"
    """Which class is the largest: ``label`` goes down in the order of labels, ``shuffled`` in an order that
    ``data.split_seed`` draws."""

    def __post_init__(self) -> None:
        for name, choices in (("kind", get_args(ImbalanceKind)), ("order", get_args(ClassOrder))):
            if getattr(self, name) not in choices:
                raise _invalid(name, getattr(self, name), f"one of {', '.join(map(repr, choices))}")
        if self.kind == "none":
            self._check_unused()
            return
        if self.ratio is not None and (not _is_number(self.ratio) or self.ratio < 1):
            raise _invalid(
                "ratio", self.ratio, "at least 1, the size of the largest class over the smallest (100 is usual)"
            )
        for name in ("largest", "smallest"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise _invalid(name, value, "a number of examples from 1 on, or null")
        if not _is_number(self.power) or not 0 < self.power <= 100:
            raise _invalid("power", self.power, "above 0 and at most 100 (6 is usual)")
        if (self.ratio is None) == (self.smallest is None):
            given = "neither is given" if self.ratio is None else "both are given"
            raise ConfigError(
                f"data.imbalance.kind is {self.kind!r}, which takes either data.imbalance.ratio or "
                f"data.imbalance.smallest, and {given}; give one of them, such as a ratio of 100."
            )
        if self.largest is not None and self.smallest is not None and self.smallest > self.largest:
            raise _invalid("smallest", self.smallest, f"at most data.imbalance.largest, which is {self.largest}")
        if self.kind != "pareto" and self.power != PUBLISHED_POWER:
            raise ConfigError(
                f"data.imbalance.power is {self.power}, but data.imbalance.kind {self.kind!r} has no power; leave it "
                "out, or choose the kind 'pareto'."
            )

    @property
    def active(self) -> bool:
        """True where the training split becomes long-tailed."""
        return self.kind != "none"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, in their order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _check_unused(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                raise ConfigError(
                    f"data.imbalance.{field.name} is {value!r}, but data.imbalance.kind is 'none', so nothing becomes "
                    "long-tailed; set the kind to 'exponential' or 'pareto', or leave it out."
                )


def _invalid(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"data.imbalance.{name} is {value!r}; it must be {expected}.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
