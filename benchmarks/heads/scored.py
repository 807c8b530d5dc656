"""Result of one method on one set with one seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mntrain.atomic_files import write_text_atomically


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Method with the settings that validation chose.

    Args:
        test: accuracy on the test split.
        validation: accuracy on the validation split.
        settings: that were chosen.
        trials: settings that were tried.
        seconds: of training with the chosen settings.
        parameters: numbers that the method has learned; examples it keeps count with all their numbers.
    """

    test: float
    validation: float
    settings: dict[str, Any]
    trials: int
    seconds: float
    parameters: int


def stored(file: Path, measure: Callable[[], Scored]) -> Scored:
    """Read a result, or measure and write it."""
    if file.exists():
        return Scored(**json.loads(file.read_text(encoding="utf-8")))
    file.parent.mkdir(parents=True, exist_ok=True)
    scored = measure()
    write_text_atomically(file, json.dumps(asdict(scored), indent=2) + "\n")
    return scored
