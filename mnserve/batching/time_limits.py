"""How long one request waits: until its deadline, and for its turn no longer than its policy allows."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from mnserve.batching.queue_policy import QueuePolicy
from mnserve.batching.request_queue import RequestQueue, WaitingRequest
from mnserve.errors import DeadlineExceededError, QueueTimeoutError

__all__ = ["TimeLimits"]


class TimeLimits(NamedTuple):
    """The times of one request.

    Attributes:
        deadline: When its caller's time is up, on the event loop's clock; None for no limit.
        longest: Seconds that it may wait for its turn; 0 for no limit.
        delay_late: Whether it then goes behind the others of its level instead of being refused.
    """

    deadline: float | None = None
    longest: float = 0.0
    delay_late: bool = False

    @classmethod
    def of(cls, policy: QueuePolicy, *, deadline: float | None, asked: float) -> TimeLimits:
        """The times of a request under a policy.

        Args:
            policy: That of its priority level.
            deadline: When its caller's time is up, on the event loop's clock.
            asked: Seconds that it asks to wait for its turn at most; 0 where it asks for nothing.
        """
        return cls(deadline, policy.longest_wait(asked), policy.delay_late)

    @property
    def refusable(self) -> bool:
        """Whether it may be refused for having waited."""
        return self.longest > 0 and not self.delay_late

    def start(self, item: WaitingRequest, line: RequestQueue, name: str) -> list[asyncio.TimerHandle]:
        """Starts the timers of a request that waits; the caller cancels them once it has its answer.

        Args:
            item: The request.
            line: Where it waits.
            name: Name of the model, for messages.
        """
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []
        if self.deadline is not None:
            timers.append(loop.call_at(self.deadline, _expire, item, line, name))
        if self.longest:
            late = _postpone if self.delay_late else _refuse
            timers.append(loop.call_later(self.longest, late, item, line, name))
        return timers


def _expire(item: WaitingRequest, line: RequestQueue, name: str) -> None:
    line.remove(item)
    if not item.future.done():
        item.future.set_exception(
            DeadlineExceededError(f"model '{name}': the deadline passed before the answer was there")
        )


def _refuse(item: WaitingRequest, line: RequestQueue, name: str) -> None:
    if item not in line:
        return
    line.remove(item)
    if not item.future.done():
        waited = (time.monotonic_ns() - item.admitted_ns) / 1e6
        item.future.set_exception(
            QueueTimeoutError(
                f"model '{name}': Request timeout expired: it waited in the queue for {waited:.3g} ms, all that it "
                "may; try again later"
            )
        )


def _postpone(item: WaitingRequest, line: RequestQueue, name: str) -> None:
    if item in line:
        line.postpone(item)
