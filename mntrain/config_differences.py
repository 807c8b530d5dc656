"""Where two configurations differ, field by field."""

from collections.abc import Set
from typing import Any


def differing_fields(before: dict[str, Any], after: dict[str, Any], *, ignore: Set[str] = frozenset()) -> list[str]:
    """What changed from ``before`` to ``after``, each as ``section.field (old → new)``, in alphabetical order.

    Args:
        before, after: plain nested values, as ``ExperimentConfig.to_dict`` gives them; a missing field counts as None.
        ignore: fields, with their section, that may differ.
    """
    return [
        f"{path} ({_dig(before, path)!r} → {_dig(after, path)!r})"
        for path in sorted((_paths(before) | _paths(after)) - ignore)
        if _dig(before, path) != _dig(after, path)
    ]


def _paths(values: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in values.items():
        found |= _paths(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found


def _dig(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values
