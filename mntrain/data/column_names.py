"""Names of columns as a recipe or a command line gives them, and the columns of a file that they mean."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import yaml

from mntrain.data.labels import listing
from mntrain.errors import ConfigError


def as_names(value: object) -> tuple[str, ...] | None:
    """Read one text, a list of texts, or a text that spells a list, such as ``[1, 2]``; None where it is neither."""
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        try:
            listed = yaml.safe_load(value)
        except yaml.YAMLError:
            return (value,)
        if isinstance(listed, list) and all(isinstance(item, str | int | float) for item in listed):
            return tuple(str(item) for item in listed)
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def possible_names(value: object) -> frozenset[str]:
    """Return every name that ``value`` may mean before the columns are known: ``a,b`` may be one column or two."""
    names = as_names(value) or ()
    return frozenset({*names, *(part.strip() for name in names for part in name.split(","))})


def find_columns(wanted: Sequence[str], columns: Sequence[str], *, field: str, where: str) -> tuple[str, ...]:
    """Return the columns that ``wanted`` names, each once; ``a,b`` is two of them where no column is called that.

    Args:
        wanted: names as they were given.
        columns: of the file.
        field: of the configuration, for messages.
        where: the file, for messages.

    Raises:
        ConfigError: a name is none of ``columns``; the message proposes the nearest.
    """
    found: dict[str, None] = {}
    for name in wanted:
        parts = [name] if name in columns else [part.strip() for part in name.split(",")]
        for part in parts:
            if part not in columns:
                close = difflib.get_close_matches(part, columns, n=1, cutoff=0.6)
                hint = f"; did you mean '{close[0]}'?" if close else "."
                raise ConfigError(f"{field} is '{part}', but {where} has the columns {listing(columns)}{hint}")
            found[part] = None
    return tuple(found)
