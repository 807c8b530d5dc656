"""Counters of batches over engine processes: they go on where one has died, and begin anew after an unload."""

from __future__ import annotations

from array import array
from itertools import count
from typing import Any

from mnserve.execution.results import BatchResult, BatchTimes
from mnserve.models.statistics import ModelCounters
from mnserve.processes.engine_counters import EngineCounters, batches_message
from mnserve.shared_catalogue.engine_page import PAGE_CELLS, ROWS, EngineRow, free_number

RESULT = BatchResult(outputs=[], rows=3, times=BatchTimes(input_ns=1, infer_ns=2, output_ns=3))


def page() -> memoryview[int]:
    return memoryview(array("q", bytes(8 * PAGE_CELLS)))


def loaded(*numbers: int) -> dict[str, Any]:
    return {"name": "m", "versions": [{"version": 1, "id": number} for number in numbers]}


def process(cells: memoryview[int], number: int) -> ModelCounters:
    """Counters of a version as its engine process has them."""
    counters, row = ModelCounters("m", 1, lambda: 0), EngineRow(cells, number)
    row.begin()
    counters.count_runs_in(row.run_cell)
    return counters


def shown(sums: EngineCounters) -> tuple[int, int, int]:
    counters = ModelCounters("m", 1, lambda: 0)
    sums.fill(counters)
    return counters.runs, sum(batch.infer.count for batch in counters.batches.values()), counters.pending()


def test_runs_and_batches_are_those_of_all_processes() -> None:
    sums, pages = EngineCounters(), [page(), page()]
    for number, cells in enumerate(pages):
        sums.add_page(number, cells)
        sums.update(number, loaded(4 + number))
        counters = process(cells, 4 + number)
        for _ in range(2):
            counters.record_batch(RESULT)
        EngineRow(cells, 4 + number).wait(5, 10)
        sums.take_batches(number, [batches_message(counters)])
    EngineRow(pages[1], 5).running_cells[2] = 1
    assert (sums.running(0), sums.running(1)) == ([], ["m"])
    assert shown(sums) == (4, 4, 10)
    sums.fold(1)
    assert shown(sums) == (4, 4, 5)
    sums.add_page(1, cells := page())
    sums.update(1, loaded(1))
    process(cells, 1).record_batch(RESULT)
    assert shown(sums) == (5, 4, 5)
    for number in range(2):
        sums.update(number, loaded())
    assert shown(sums) == (0, 0, 0)


def test_a_model_that_is_loaded_again_for_days_never_gets_the_row_of_another() -> None:
    numbers = count(1)
    stays = free_number(numbers, {})
    seen = set()
    for _ in range(ROWS + 5):
        seen.add(free_number(numbers, {stays}) % ROWS)
    assert stays % ROWS not in seen
    assert len(seen) == ROWS - 1
    assert free_number(numbers, range(ROWS)) > ROWS  # more than there are rows: some share theirs
