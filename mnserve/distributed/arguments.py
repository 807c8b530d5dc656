"""Settings from the arguments of ``serve run`` and of Ray Serve's configuration files.

``serve run`` has every value as text, and a file has numbers, truth values and lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from mnserve.distributed.settings import RaySettings
from mnserve.errors import SettingsError
from mnserve.text.names import shortened

Settings = TypeVar("Settings")


def settings_from_arguments(arguments: Mapping[str, Any]) -> RaySettings:
    """Reads settings: the options of ``mnserve ray`` with underscores, without the dashes before them.

    Args:
        arguments: Name of an option -> its value.

    Raises:
        SettingsError: There is no such option, or its value cannot work.
    """
    names = _names(RaySettings)
    for name in arguments:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else "`mnserve ray --help` lists them all"
            raise SettingsError(f"there is no option {shortened(name)!r}; {hint}")
    if "repository" not in arguments:
        raise SettingsError("repository is missing; give repository=FOLDER, which every machine of the cluster has")
    return _build(RaySettings, arguments)


def _names(settings_class: type[Any]) -> list[str]:
    hints, names = get_type_hints(settings_class), []
    for item in fields(settings_class):
        names += _names(hints[item.name]) if is_dataclass(hints[item.name]) else [item.name]
    return names


def _build(settings_class: type[Settings], arguments: Mapping[str, Any]) -> Settings:
    hints = get_type_hints(settings_class)
    values: dict[str, Any] = {}
    for item in fields(settings_class):  # type: ignore[arg-type]
        hint = hints[item.name]
        if is_dataclass(hint):
            values[item.name] = _build(hint, arguments)  # type: ignore[arg-type]
        elif item.name in arguments:
            values[item.name] = _read(item.name, hint, arguments[item.name])
    return settings_class(**values)


def _read(name: str, hint: Any, value: Any) -> Any:
    if get_origin(hint) is tuple and isinstance(value, str):
        value = value.split() if name == "provider_options" else value.replace(",", " ").split()
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        reason = reason[:1].lower() + reason[1:]
        raise SettingsError(f"{name} is {shortened(str(value))!r}: {reason}") from None
