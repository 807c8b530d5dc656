"""Fields of configurations: numbers must be finite, and differences are told field by field."""

import dataclasses
import math
from collections.abc import Mapping, Set
from difflib import get_close_matches
from typing import Any, TypeVar

from mntrain.errors import ConfigError

_Config = TypeVar("_Config")


def require_finite(section: str, config: Any) -> None:
    """Refuse nan and inf in any number of a configuration dataclass.

    Args:
        section: name of the configuration in a recipe.
        config: the dataclass.

    Raises:
        ConfigError: a field is not finite.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{section}.{field.name} is {value}; it must be a finite number.")


def with_fields(section: str, config: _Config, given: Mapping[str, Any]) -> _Config:
    """Return a configuration with some fields changed; a mapping changes fields of an inner section, as one of words.

    Args:
        section: name of the configuration in a recipe.
        config: the dataclass.
        given: values by the names of fields.

    Raises:
        ConfigError: there is no such field, or a value that cannot be.
    """
    known = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    changes = {}
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise ConfigError(
                f"{section}.{name} is no field; {f'did you mean {near[0]}?' if near else 'leave it out.'}"
            )
        inner = getattr(config, name)
        nested = dataclasses.is_dataclass(inner) and isinstance(value, Mapping)
        changes[name] = with_fields(f"{section}.{name}", inner, value) if nested else value
    changed: _Config = dataclasses.replace(config, **changes)  # type: ignore[type-var]
    return changed


def differing_fields(before: dict[str, Any], after: dict[str, Any], *, ignore: Set[str] = frozenset()) -> list[str]:
    """List changed fields, each as ``section.field (old → new)``, in alphabetical order.

    Args:
        before, after: plain nested values, as ``ExperimentConfig.to_dict`` gives them; a missing field counts as None.
        ignore: fields, with their section, that may differ.
    """
    return [
        f"{path} ({_value_at(before, path)!r} → {_value_at(after, path)!r})"
        for path in sorted((_paths(before) | _paths(after)) - ignore)
        if _value_at(before, path) != _value_at(after, path)
    ]


def _paths(values: dict[str, Any], prefix: str = "") -> set[str]:
    paths: set[str] = set()
    for key, value in values.items():
        paths |= _paths(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return paths


def _value_at(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values
