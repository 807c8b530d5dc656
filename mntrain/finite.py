"""A check that every configuration shares."""

import dataclasses
import math
from typing import Any

from mntrain.errors import ConfigError


def require_finite(section: str, config: Any) -> None:
    """Refuse nan and inf in any number of a configuration dataclass.

    Args:
        section: how the configuration is called in a recipe.
        config: the dataclass.

    Raises:
        ConfigError: a field is not finite.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{section}.{field.name} is {value}; it must be a finite number.")
