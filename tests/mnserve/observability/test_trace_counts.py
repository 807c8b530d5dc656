"""A number of requests to trace is one for all processes."""

from __future__ import annotations

import os

from mnserve.channel.locked import LockedCells
from mnserve.observability.trace_counts import COUNT_CELLS, SharedTraceCounts
from mnserve.observability.trace_settings import TraceChoice, TraceSettings


def test_processes_trace_as_many_requests_together_as_were_asked_for() -> None:
    cells = LockedCells.create(COUNT_CELLS)
    memories = (cells, LockedCells.from_fd(os.dup(cells.fd)))
    processes = [TraceSettings(TraceChoice(rate=1), SharedTraceCounts(memory)) for memory in memories]
    assert [process.take("m", None) for process in processes] == [True, True]
    for process in processes:
        process.change("m", {"trace_count": ["3"]})
    assert [processes[turn % 2].take("m", None) for turn in range(6)] == [True] * 3 + [False] * 3
    assert processes[0].take("n", None), "another model has no count"
    processes[0].change("m", {"trace_count": ["1"]})
    assert processes[0].take("m", None)
    processes[1].change("m", {"trace_count": ["1"]}, anew=False)  # hears of it late
    assert not processes[1].take("m", None)
