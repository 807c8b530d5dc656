"""Memory of large messages goes back, once, after they have come and gone."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from mnserve.engines.memory import heap_trim
from mnserve.rpc import heap_trimming
from mnserve.rpc.heap_trimming import LARGE_BYTES, HeapTrimming


class Heap:
    """Counts how often it is trimmed, and where."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def trim(self) -> None:
        self.threads.append(threading.current_thread())


async def test_large_messages_are_followed_by_one_trim_in_a_thread() -> None:
    heap = Heap()
    trimming = HeapTrimming(heap.trim, quiet=0.05)
    trimming.ended(LARGE_BYTES - 1)
    await asyncio.sleep(0.1)
    assert not heap.threads
    for _ in range(5):
        trimming.ended(LARGE_BYTES)
        await asyncio.sleep(0.01)
    async with asyncio.timeout(20):
        while not heap.threads:
            await asyncio.sleep(0.01)
        assert threading.main_thread() not in heap.threads
        trimming.ended(LARGE_BYTES)
        while len(heap.threads) < 2:
            await asyncio.sleep(0.01)


async def test_messages_that_keep_coming_do_not_put_it_off_for_ever() -> None:
    heap = Heap()
    trimming = HeapTrimming(heap.trim, quiet=600, most=0.05)
    async with asyncio.timeout(20):
        while len(heap.threads) < 2:
            trimming.ended(LARGE_BYTES)
            await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_glibc_gives_memory_back() -> None:
    trim = heap_trim()
    assert trim is None or trim() in (0, 1)


async def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_trimming, "heap_trim", lambda: None)
    trimming = HeapTrimming(quiet=0)
    trimming.ended(LARGE_BYTES)
    assert trimming._task is None
