"""Figures as text and as files."""

import json
from pathlib import Path
from typing import Any


def with_quartiles(median: float, q1: float, q3: float) -> str:
    """A ratio for a table."""
    return f"{median:.2f} ({q1:.2f}–{q3:.2f})"


def write_json(file: Path | None, record: Any) -> None:
    """Writes the figures, whole or not at all; nothing where no file was asked for.

    Raises:
        OutputError: the file cannot be written any more.
    """
    from mnserve.atomic_files import write_atomically

    if file is not None:
        write_atomically(file, (json.dumps(record, indent=2) + "\n").encode())
