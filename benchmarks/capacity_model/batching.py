"""The queue of waiting calls under simulated time, with mnserve's own rule for the moment of an idle engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import simpy

from mnserve.batching.moment import WaitingMoment


@dataclass
class Call:
    """One call of a caller.

    Args:
        front_end: number of the front end that takes it in.
        reply: called when the caller has the answer.
        client: number of the load generator's thread.
        admitted_ns: time at which it was queued.
    """

    front_end: int
    reply: Callable[[], None]
    client: int = 0
    admitted_ns: int = 0


class Waiting:
    """Calls that wait for an engine, one row each; looks like the server's queue to the server's rule."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._calls: deque[Call] = deque()
        self.clock = self
        self.arrivals = 0
        self.last_admitted_ns = 0

    def ns(self) -> int:
        """The simulated time, in nanoseconds."""
        return round(self._env.now * 1e9)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def rows(self) -> int:
        """Rows of the waiting calls."""
        return len(self._calls)

    def oldest(self) -> Call:
        """The call whose turn it is."""
        return self._calls[0]

    def add(self, call: Call) -> None:
        """Queue a call."""
        call.admitted_ns = self.last_admitted_ns = self.ns()
        self.arrivals += 1
        self._calls.append(call)

    def take(self, count: int) -> Taken:
        """Take the next batch, of so many calls at most."""
        return Taken([self._calls.popleft() for _ in range(min(count, len(self._calls)))])


@dataclass
class Taken:
    """A batch of calls."""

    requests: list[Call]

    @property
    def rows(self) -> int:
        """Rows of the calls."""
        return len(self.requests)


class Rule(Protocol):
    """How long an idle engine waits for more calls."""

    enough_at: int

    def remaining(self) -> float:
        """Seconds still to wait; 0 or less for none."""

    def on_answered(self, batch: Any, run_ns: int) -> None:
        """Note a run that has ended."""


class NoMoment:
    """An idle engine takes what waits at once."""

    enough_at = 0

    def remaining(self) -> float:
        """No time at all."""
        return 0.0

    def on_answered(self, batch: Any, run_ns: int) -> None:
        """Learn nothing."""


def served_rule(waiting: Waiting) -> Rule:
    """The rule that mnserve follows where no delay is configured, under simulated time."""
    return WaitingMoment(cast(Any, waiting))


def no_moment(waiting: Waiting) -> Rule:
    """The rule of a server that never waits."""
    return NoMoment()
