"""How a process has ended, in words."""

from __future__ import annotations

import signal


def ending(code: int) -> str:
    """Tells how a process has ended, behind "has ended"."""
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
