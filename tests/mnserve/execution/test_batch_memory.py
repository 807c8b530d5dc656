"""Memory of joined requests, used again by later batches."""

from __future__ import annotations

import numpy as np

from mnserve.codec.decoding import InferenceWork
from mnserve.execution.batch_memory import MAX_SHAPES, BatchMemory

WIDTH = 20_000  # floats in a row: two rows are more than the least that is kept


def work(*values: float, width: int = WIDTH) -> InferenceWork:
    rows = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
    return InferenceWork(feeds={"x": rows}, rows=len(values), outputs=("y",))


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


def test_an_output_inside_the_batch_memory_is_copied() -> None:
    lease = BatchMemory(4, spare=2).join([work(1), work(2)], 2)
    inside, outside = lease.feeds["x"][1:], lease.feeds["x"] + 1
    ((copied, kept),) = lease.detached([[inside, outside]])
    assert kept is outside
    assert copied.tolist() == inside.tolist()
    assert not np.may_share_memory(copied, inside)


def test_memory_is_kept_for_a_few_shapes_only() -> None:
    memory = BatchMemory(2, spare=1)
    for width in range(WIDTH, WIDTH + 20):
        leases = [memory.join([work(1, width=width), work(2, width=width)], 2) for _ in range(3)]
        for lease in leases:
            memory.give_back(lease)
    widest = range(WIDTH + 20 - MAX_SHAPES, WIDTH + 20)
    assert memory.kept_bytes == sum(2 * 4 * width for width in widest)  # one block of each


def test_small_batches_and_strings_come_from_the_allocator() -> None:
    memory = BatchMemory(4, spare=2)
    assert not memory.join([work(1, width=3), work(2, width=3)], 2).blocks
    text = InferenceWork(feeds={"x": np.full((1, 50_000), b"a", object)}, rows=1, outputs=("y",))
    lease = memory.join([text, text], 2)
    assert not lease.blocks
    assert lease.feeds["x"].shape == (2, 50_000)


def test_memory_is_sized_by_the_rows_of_the_batch_and_kept_up_to_a_limit() -> None:
    memory = BatchMemory(2**40, spare=2, max_bytes=100)
    lease = memory.join([work(1), work(2)], 2)
    assert lease.blocks[0][1].shape == (2, WIDTH)
    memory.give_back(lease)
    assert memory.kept_bytes == 0
