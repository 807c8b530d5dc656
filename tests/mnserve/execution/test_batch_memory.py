"""Joining requests in memory that is used again."""

from __future__ import annotations

import numpy as np
import pytest

from mnserve.execution import batch_memory
from mnserve.execution.batch import InferenceWork
from mnserve.execution.batch_memory import BatchMemory

WIDTH = 20_000  # floats in a row: two rows are more than the least that is kept


def work(*values: float, width: int = WIDTH) -> InferenceWork:
    rows = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
    return InferenceWork(feeds={"x": rows}, rows=len(values), outputs=("y",))


def test_one_request_is_taken_as_it_is() -> None:
    alone = work(1, 2)
    lease = BatchMemory(4, spare=2).join([alone], 2)
    assert lease.feeds["x"] is alone.feeds["x"]
    assert not lease.blocks


def test_rows_lie_side_by_side_in_memory_that_is_used_again() -> None:
    memory = BatchMemory(4, spare=2)
    first = memory.join([work(1, 2), work(3)], 3)
    assert first.feeds["x"][:, 0].tolist() == [1, 2, 3]
    assert first.feeds["x"].flags.c_contiguous
    beside = memory.join([work(4), work(5)], 2)
    assert not np.may_share_memory(first.feeds["x"], beside.feeds["x"])
    held = first.feeds["x"]
    memory.give_back(first)
    memory.give_back(first)  # twice is once
    again, other = memory.join([work(6), work(7, 7)], 3), memory.join([work(8), work(9, 9)], 3)
    assert np.may_share_memory(held, again.feeds["x"])
    assert not np.may_share_memory(held, other.feeds["x"])
    assert again.feeds["x"][:, -1].tolist() == [6, 7, 7]
    assert other.feeds["x"][:, -1].tolist() == [8, 9, 9]


def test_an_output_that_lies_in_it_is_noticed() -> None:
    lease = BatchMemory(4, spare=2).join([work(1), work(2)], 2)
    assert lease.shares(lease.feeds["x"][1:])
    assert not lease.shares(lease.feeds["x"] + 1)


def test_what_is_kept_is_bounded() -> None:
    memory = BatchMemory(2, spare=1)
    for width in range(WIDTH, WIDTH + 20):
        leases = [memory.join([work(1, width=width), work(2, width=width)], 2) for _ in range(3)]
        for lease in leases:
            memory.give_back(lease)
    kept = [block for blocks in memory._free.values() for block in blocks]
    assert len(kept) == len(memory._free) == 8


def test_small_batches_and_strings_come_from_the_allocator() -> None:
    memory = BatchMemory(4, spare=2)
    assert not memory.join([work(1, width=3), work(2, width=3)], 2).blocks
    text = InferenceWork(feeds={"x": np.full((1, 50_000), b"a", object)}, rows=1, outputs=("y",))
    lease = memory.join([text, text], 2)
    assert not lease.blocks
    assert lease.feeds["x"].shape == (2, 50_000)


def test_memory_is_asked_for_by_the_rows_that_there_are_and_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = BatchMemory(2**40, spare=2)
    lease = memory.join([work(1), work(2)], 2)
    assert lease.blocks[0][1].shape == (2, WIDTH)
    monkeypatch.setattr(batch_memory, "_MOST_BYTES", 100)
    memory.give_back(lease)
    assert not any(memory._free.values())
