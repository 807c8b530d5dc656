"""What is there when a process begins to serve is in no later collection."""

from __future__ import annotations

import gc

from mnserve.execution.garbage import keep_for_good


def test_what_is_there_is_left_out_of_collections_and_what_comes_is_not() -> None:
    there: list[object] = []
    keep_for_good()
    comes: list[object] = []
    collected = {id(item) for item in gc.get_objects()}
    assert id(there) not in collected
    assert id(comes) in collected
