"""One side's part of the shared memory: places in it, those who wait for one, and pages that are given back."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Final

from mnserve.channel.allocator import LARGE, Allocator, NoRoomError
from mnserve.channel.memory import SharedMemory

MUCH: Final = 2**26
"""Bytes of memory that are kept, however little of it is used."""
LOOK_SECONDS: Final = 5.0
"""Time between two looks at how much was used."""


class Arena:
    """Places in shared memory that this process writes and another one reads. Belongs to one event loop.

    Args:
        memory: The memory; its owner closes it.
        look_seconds: Time between two looks at how much was used.
    """

    def __init__(self, memory: SharedMemory, look_seconds: float = LOOK_SECONDS) -> None:
        self.view = memory.view
        """All bytes, for reading and writing."""
        self.capacity = memory.nbytes
        self._memory = memory
        self._look_seconds = look_seconds
        self._allocator = Allocator(memory.nbytes)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._most_used = 0
        self._closed = False

    @property
    def used(self) -> int:
        """Bytes of the places that are taken."""
        return self._allocator.used

    def allocate(self, nbytes: int) -> int:
        """Takes a place, which starts at a multiple of 256 bytes.

        Returns:
            Its offset in bytes.

        Raises:
            NoRoomError: There is none, now or ever.
        """
        place = self._allocator.allocate(nbytes)
        if nbytes >= LARGE:
            self._most_used = max(self._most_used, self._allocator.used)
            if self._timer is None:
                self._look_later()
        return place

    async def wait_for_room(self, nbytes: int) -> int:
        """Takes a place, once there is one.

        Raises:
            NoRoomError: There never is, or the arena is closed.
        """
        if nbytes > self.capacity:
            raise NoRoomError(nbytes, self.capacity)
        while not self._closed:
            try:
                return self.allocate(nbytes)
            except NoRoomError:
                if not self._allocator.used:
                    raise
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        raise NoRoomError(nbytes, self.capacity)

    def free(self, place: int) -> None:
        """Frees a place.

        Raises:
            ValueError: Nothing is taken there.
        """
        self._allocator.free(place)
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """Stops looking after the memory, and has nobody wait for a place any more."""
        self._closed = True
        self._wake()
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        """Has all look again; those who cannot have a place wait on, in the same order."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._look_seconds, self._look)

    def _look(self) -> None:
        """Gives free pages back if a good part of what is there was not used since the last look."""
        self._timer = None
        if self._memory.fd < 0:
            return
        resident = os.fstat(self._memory.fd).st_blocks * 512
        if resident > MUCH:
            if self._most_used < resident // 2:
                self._allocator.give_back(self._memory.give_back)
            self._most_used = self._allocator.used
            self._look_later()
