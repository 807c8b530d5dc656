"""Places in memory: none overlaps another, none is lost, and capacity is kept."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnserve.channel.allocator import LARGE, SMALLEST, SPARE, Allocator, NoRoomError

CAPACITY = SMALLEST * 1000  # no power of two


def is_free(offset: int, nbytes: int, taken: dict[int, int]) -> bool:
    return all(offset + nbytes <= start or start + other <= offset for start, other in taken.items())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(1, CAPACITY + 1),
            st.sampled_from([1, SMALLEST, SMALLEST + 1, 5 * SMALLEST]),
            st.just(0).map(lambda _: None),
        ),
        max_size=120,
    ),
    st.randoms(use_true_random=False),
)
def test_blocks_never_overlap_and_freed_ones_come_back(sizes: list[int | None], choice: random.Random) -> None:
    allocator = Allocator(CAPACITY)
    taken: dict[int, int] = {}
    for size in sizes:
        if size is None:
            if taken:
                offset = choice.choice(list(taken))
                allocator.free(offset)
                del taken[offset]
            continue
        block = max(SMALLEST, 1 << (size - 1).bit_length())
        if not any(is_free(start, block, taken) for start in range(0, CAPACITY - block + 1, block)):
            with pytest.raises(NoRoomError, match=f"no room for {size} bytes among {CAPACITY}"):
                allocator.allocate(size)
            continue
        offset = allocator.allocate(size)
        assert offset % block == 0
        assert offset + block <= CAPACITY
        assert is_free(offset, block, taken)
        taken[offset] = block
        assert allocator.used == sum(taken.values())
    for offset in taken:
        allocator.free(offset)
    assert allocator.used == 0
    assert allocator.allocate(512 * SMALLEST) == 0  # all of it is in one piece again


def test_all_of_the_memory_can_be_taken() -> None:
    allocator = Allocator(CAPACITY + 255)
    for _ in range(2):
        offsets = [allocator.allocate(SMALLEST) for _ in range(1000)]
        assert sorted(offsets) == list(range(0, CAPACITY, SMALLEST))
        assert allocator.used == CAPACITY
        with pytest.raises(NoRoomError, match=f"no room for 1 bytes among {CAPACITY + 255}"):
            allocator.allocate(1)
        for offset in offsets:
            allocator.free(offset)


def test_a_block_is_freed_once() -> None:
    allocator = Allocator(CAPACITY)
    offset = allocator.allocate(10)
    with pytest.raises(ValueError, match=f"no block is taken at {offset + 1}"):
        allocator.free(offset + 1)
    allocator.free(offset)
    with pytest.raises(ValueError, match="no block is taken"):
        allocator.free(offset)


def test_large_free_memory_is_given_back_and_taken_blocks_are_not() -> None:
    allocator = Allocator(64 * LARGE)
    offsets = [allocator.allocate(LARGE) for _ in range(48)]
    small = allocator.allocate(1)
    for offset in offsets[1:]:
        allocator.free(offset)
    given_back: list[tuple[int, int]] = []
    allocator.give_back(lambda offset, nbytes: given_back.append((offset, nbytes)))
    free = {place for offset, nbytes in given_back for place in range(offset, offset + nbytes, LARGE)}
    assert sum(nbytes for _, nbytes in given_back) == len(free) * LARGE == 62 * LARGE
    assert not free & {offsets[0], small // LARGE * LARGE}


def test_blocks_beyond_the_spare_ones_are_joined() -> None:
    allocator = Allocator(2 * SPARE * SMALLEST)
    for offset in [allocator.allocate(SMALLEST) for _ in range(2 * SPARE)]:
        allocator.free(offset)
    whole = allocator.allocate(2 * SPARE * SMALLEST)
    assert whole == 0
