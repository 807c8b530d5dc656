"""What is there when a process begins to serve is in no later collection."""

from __future__ import annotations

import gc

from mnserve.execution.garbage import keep_for_good


def test_what_is_there_is_left_out_of_collections() -> None:
    before = gc.get_freeze_count()
    try:
        keep_for_good()
        assert gc.get_freeze_count() > before + 1000
    finally:
        gc.unfreeze()
