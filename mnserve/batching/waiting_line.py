"""Line of requests for which a queue has no room: of each priority level the first one is let in first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from mnserve.errors import QueueFullError


class WaitingLine:
    """Requests of streams that wait for room, instead of being refused: their streams are not read on meanwhile."""

    def __init__(self) -> None:
        self.turns: dict[int, deque[asyncio.Event]] = {}
        """Priority level -> those that wait; empty where nothing does."""

    def has(self, level: int) -> bool:
        """Finds if requests of a priority level wait."""
        return level in self.turns

    async def wait(self, level: int, check: Callable[[], None], until: float | None) -> None:
        """Waits until a check passes, behind those of the level that wait already.

        Args:
            level: Priority level of the request.
            check: Raises QueueFullError while there is no room.
            until: Time to give up, on the event loop's clock; None for never.

        Raises:
            TimeoutError: The time is up.
        """
        turn = asyncio.Event()
        turns = self.turns.setdefault(level, deque())
        turns.append(turn)
        try:
            async with asyncio.timeout_at(until):
                while True:
                    await turn.wait()
                    turn.clear()
                    try:
                        return check()
                    except QueueFullError:
                        continue
        finally:
            turns.remove(turn)
            if not turns:
                del self.turns[level]
            self.wake()  # the next may fit as well

    def wake(self) -> None:
        """Has the first of each level look again, the highest priority first."""
        for level in sorted(self.turns):
            self.turns[level][0].set()
