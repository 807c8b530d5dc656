"""Counters over several processes."""

from __future__ import annotations

from array import array

import pytest

from mnserve.access.refused_calls import RefusedCalls
from mnserve.execution.results import NO_TIMES
from mnserve.models.statistics import LAST_MS, ModelCounters
from mnserve.processes.request_counters import RequestCounters
from mnserve.shared_catalogue.shared_counters import PAGE_CELLS, refused_of, slot_of


def page() -> memoryview[int]:
    return memoryview(array("q", bytes(8 * PAGE_CELLS)))


def counters(cells: memoryview[int]) -> ModelCounters:
    return ModelCounters("m", 1, lambda: 0, cells)


def shown(sums: RequestCounters) -> tuple[int, int, int]:
    total = ModelCounters("m", 1, lambda: 0, sums.counts(("m", 1)))
    return total.rows, total.success.count, total.failure["OTHER"].count


def test_the_sum_goes_on_where_a_front_end_has_died_and_begins_anew_after_an_unload() -> None:
    sums = RequestCounters(2)
    first, second = page(), page()
    sums.add_page(0, first)
    sums.add_page(1, second)
    slot = sums.slot(("m", 1))
    for cells in (first, second):
        counters(slot_of(cells, slot)).record_success(rows=2, total_ns=5, queue_ns=1, times=NO_TIMES)
        RefusedCalls(refused_of(cells)).count("RATE")
    counters(slot_of(second, slot)).record_failure(reason="OTHER", total_ns=1)
    assert shown(sums) == (4, 2, 1)
    last = ModelCounters("m", 1, lambda: 0, sums.counts(("m", 1))).message().last_inference
    assert last == slot_of(second, slot)[LAST_MS] > 0
    sums.fold(1)
    sums.add_page(1, page())
    assert shown(sums) == (4, 2, 1)
    assert sums.refused()["RATE"] == 2
    sums.forget(("m", 1))
    assert sums.slot(("n", 1)) != slot
    assert sums.slot(("m", 1)) == slot  # none was left but that one
    assert shown(sums) == (0, 0, 0)
    assert ModelCounters("m", 1, lambda: 0, sums.counts(("m", 1))).message().last_inference == 0
    counters(slot_of(first, slot)).record_success(rows=1, total_ns=5, queue_ns=1, times=NO_TIMES)
    assert shown(sums) == (1, 1, 0)
    with pytest.raises(IndexError):
        sums.slot(("o", 1))
