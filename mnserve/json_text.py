"""JSON that anyone may have written: in export.json, in the parameters of a configuration."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_json"]


def parse_json(text: str) -> Any:
    """The value that ``text`` stands for.

    Raises:
        ValueError: It is no JSON, or nested more deeply than anything that is meant.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
