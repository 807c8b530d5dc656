"""Line of requests for which a queue has no room: of each priority level the first one is let in first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from mnserve.batching.request_limits import RequestLimits
from mnserve.errors import DeadlineExceededError, QueueFullError, QueueTimeoutError
from mnserve.execution.clock import Clock


class WaitingLine:
    """Requests of streams that wait for room, instead of being refused: their streams are not read on meanwhile.

    Args:
        model: Name of the model, for messages.
        clock: Monotonic time.
    """

    def __init__(self, model: str, clock: Clock) -> None:
        self.turns: dict[int, deque[asyncio.Event]] = {}
        """Priority level -> those that wait; empty where nothing does."""
        self._model = model
        self._clock = clock

    def has(self, level: int) -> bool:
        """Finds if requests of a priority level wait."""
        return level in self.turns

    async def wait(self, limits: RequestLimits, check: Callable[[], None]) -> RequestLimits:
        """Waits until a check passes, behind those of the level that wait already.

        Args:
            limits: Priority and times of the request.
            check: Raises QueueFullError while there is no room.

        Returns:
            The limits, with less time to wait in the queue by what it has waited here.

        Raises:
            DeadlineExceededError: The caller's time is up.
            QueueTimeoutError: It waited longer than it may.
        """
        began = self._clock.seconds()
        refused_at = began + limits.max_wait if limits.refuses_late else None
        times = [time for time in (limits.deadline, refused_at) if time is not None]
        try:
            await self._wait(limits.level, check, min(times, default=None))
        except TimeoutError:
            if limits.deadline is not None and limits.deadline == min(times):
                raise DeadlineExceededError(
                    f"model '{self._model}': the deadline passed before the answer was there"
                ) from None
            raise QueueTimeoutError(
                f"model '{self._model}': Request timeout expired: it waited for room in the queue for "
                f"{limits.max_wait * 1e3:.3g} ms, all that it may; try again later"
            ) from None
        waited = self._clock.seconds() - began
        return limits._replace(max_wait=max(1e-6, limits.max_wait - waited)) if limits.refuses_late else limits

    async def _wait(self, level: int, check: Callable[[], None], until: float | None) -> None:
        """Waits until a check passes.

        Raises:
            TimeoutError: It is later than ``until``, on the event loop's clock.
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
