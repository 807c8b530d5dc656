"""Garbage collection of a process that serves: a pause that grows with all that was ever imported is a late answer."""

from __future__ import annotations

import gc


def keep_for_good() -> None:
    """Takes what is there now, such as modules, out of later collections."""
    gc.collect()
    gc.freeze()
