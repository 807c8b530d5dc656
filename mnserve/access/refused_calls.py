"""Counter of the calls that were refused before a model was asked."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import Final

REASONS: Final = ("PLACES", "MESSAGE", "TOKEN", "RATE", "STOPPING")
"""Reasons: too many calls in progress; a message that is too large; no good token; the caller's rate; a stop."""


class RefusedCalls:
    """Counts refused calls by reason. Written on the event loop; read from any thread.

    Args:
        cells: One 64-bit cell for each of REASONS, such as memory that processes share; None for an array.
    """

    def __init__(self, cells: MutableSequence[int] | memoryview[int] | None = None) -> None:
        self._cells = array("q", bytes(8 * len(REASONS))) if cells is None else cells

    @property
    def counts(self) -> dict[str, int]:
        """Reason -> refused calls."""
        return dict(zip(REASONS, self._cells, strict=False))

    def count(self, reason: str) -> None:
        """Counts one more call.

        Args:
            reason: One of REASONS.
        """
        self._cells[REASONS.index(reason)] += 1
