"""Counter of the calls that were refused before a model was asked."""

from __future__ import annotations

from typing import Final

REASONS: Final = ("PLACES", "MESSAGE", "TOKEN", "RATE", "STOPPING")
"""Reasons: too many calls in progress; a message that is too large; no good token; the caller's rate; a stop."""


class RefusedCalls:
    """Counts refused calls by reason. Written on the event loop; read from any thread."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(REASONS, 0)
        """Reason -> refused calls."""

    def count(self, reason: str) -> None:
        """Counts one more call.

        Args:
            reason: One of REASONS.
        """
        self.counts[reason] += 1
