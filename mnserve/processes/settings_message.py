"""Settings as values of JSON, for the processes of a server."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_origin, get_type_hints

_Settings = TypeVar("_Settings")


def settings_message(settings: Any) -> dict[str, Any]:
    """Describes settings, a dataclass, in values of JSON."""
    return dataclasses.asdict(settings)


def settings_from_message(kind: type[_Settings], message: Mapping[str, Any]) -> _Settings:
    """Makes the settings that :func:`settings_message` has described.

    Args:
        kind: Their class.
        message: The description.
    """
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        value = message[name]
        if dataclasses.is_dataclass(hint):
            value = settings_from_message(hint, value)  # type: ignore[arg-type]
        fields[name] = tuple(value) if get_origin(hint) is tuple else value
    return kind(**fields)
