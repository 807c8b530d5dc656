"""One side's part of the shared memory: those who wait for a place get one, and unused pages go back."""

from __future__ import annotations

import asyncio
import os

import pytest

from mnserve.channel import arena as rules
from mnserve.channel.allocator import NoRoomError
from mnserve.channel.arena import Arena
from mnserve.channel.memory import SharedMemory


async def test_those_who_wait_get_a_place_in_turn() -> None:
    memory = SharedMemory.create(4096)
    arena = Arena(memory)
    place = arena.allocate(4096)
    waiting = [asyncio.create_task(arena.wait_for_room(4096)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(NoRoomError):
        arena.allocate(1)
    waiting[0].cancel()
    await asyncio.wait([waiting[0]])
    for task in waiting[1:]:
        assert not task.done()
        arena.free(place)
        place = await asyncio.wait_for(task, 5)
    with pytest.raises(NoRoomError):
        await arena.wait_for_room(4097)
    last = asyncio.create_task(arena.wait_for_room(1))
    await asyncio.sleep(0)
    arena.close()
    with pytest.raises(NoRoomError):
        await last
    memory.close()


async def test_a_turn_is_not_lost_with_the_one_who_had_it() -> None:
    memory = SharedMemory.create(4096)
    arena = Arena(memory)
    place = arena.allocate(4096)
    first, second = (asyncio.create_task(arena.wait_for_room(4096)) for _ in range(2))
    await asyncio.sleep(0)
    arena.free(place)
    first.cancel()
    assert await asyncio.wait_for(second, 5) == place
    arena.close()
    memory.close()


async def test_pages_that_are_not_used_any_more_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MUCH", 2**18)
    memory = SharedMemory.create(2**24)
    arena = Arena(memory, look_seconds=60.0)

    def resident() -> int:
        return os.fstat(memory.fd).st_blocks * 512

    kept, *others = (arena.allocate(2**20) for _ in range(4))
    for place in (kept, *others):
        arena.view[place : place + 2**20] = b"x" * 2**20
    for place in others:
        arena.free(place)
    arena._look()
    assert resident() == 4 * 2**20  # all of it was used since the last look
    arena._look()
    assert resident() == 2**20
    assert arena.view[kept] == ord("x")
    arena.close()
    memory.close()
