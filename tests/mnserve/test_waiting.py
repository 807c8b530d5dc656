"""The line of waiting requests, without an engine."""

from __future__ import annotations

import asyncio

import numpy as np

from mnserve.execution import Work
from mnserve.waiting import WaitingLine


def work(*values: float, width: int = 2) -> Work:
    """One row for each value."""
    return Work(
        feeds={"x": np.repeat(np.array(values, dtype=np.float32)[:, None], width, axis=1)},
        rows=len(values),
        outputs=("y",),
    )


async def test_strings_count_with_what_they_hold() -> None:
    text = np.array([[b"x" * 1000], [b""]], dtype=object)
    assert 1000 < Work(feeds={"x": text}, rows=2, outputs=()).nbytes < 1200


async def test_requests_that_are_answered_already_are_not_run() -> None:
    """A deadline can pass in the very turn of the loop in which the batch is put together."""
    line = WaitingLine(4)
    futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
    for future in futures:
        line.add(work(1), future)
    futures[0].set_result(None)
    assert [request.future for request in line.take_batch()] == futures[1:]
    assert len(line) == 0
