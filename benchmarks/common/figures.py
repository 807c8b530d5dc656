"""Write figures as text and as files."""

import json
from pathlib import Path
from typing import Any


def with_quartiles(median: float, q1: float, q3: float) -> str:
    """Write a ratio with its quartiles for a table."""
    return f"{median:.2f} ({q1:.2f}–{q3:.2f})"


def write_json(file: Path | None, record: Any) -> None:
    """Write the figures atomically; nothing without a file.

    Raises:
        OutputError: the file cannot be written any more.
    """
    from mnserve.atomic_files import write_atomically

    if file is not None:
        write_atomically(file, (json.dumps(record, indent=2) + "\n").encode())
