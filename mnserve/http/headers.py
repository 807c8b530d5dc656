"""Headers of a request."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = "MutableMapping[str, Any]"
"""Scope of a request, as ASGI has it."""


def header_of(scope: Scope, name: bytes) -> str | None:
    """Returns the value of a header, of several with one name joined; None where there is none.

    Args:
        scope: Scope of the request.
        name: Name in lower case.
    """
    values = [value for key, value in scope["headers"] if key == name]
    return b", ".join(values).decode("latin-1") if values else None
