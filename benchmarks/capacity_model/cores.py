"""Cores that threads share in slices of time, and threads that work turn by turn."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import simpy

Steps: TypeAlias = Generator[simpy.Event, Any, None]
"""What a simulated process waits for, step by step."""

SLICE = 0.0005
"""Longest time on a core while others wait for one, in seconds."""
_SHAPE = 2.0
"""Shape of the gamma distribution of single pieces of work: they vary by 0.7 of their mean."""


class Cores:
    """Cores of a machine.

    Args:
        env: The simulation.
        count: How many; None where there is always one free.
        dice: Varies the times of single pieces of work; None leaves them as they are.
    """

    def __init__(self, env: simpy.Environment, count: int | None, dice: random.Random | None = None) -> None:
        self._env = env
        self._dice = dice
        self.count = count
        self._free = simpy.Resource(env, count) if count else None
        self.used = 0.0
        """CPU time so far, in seconds."""

    def varied(self, seconds: float) -> float:
        """A time around the one that is given, which it is in the mean."""
        return seconds if self._dice is None else self._dice.gammavariate(_SHAPE, seconds / _SHAPE) if seconds else 0.0

    def work(self, seconds: float) -> Steps:
        """Take a core for some seconds of CPU time, in slices where others wait for one."""
        self.used += seconds
        if self._free is None:
            yield self._env.timeout(seconds)
            return
        while seconds > 0:
            with self._free.request() as turn:
                yield turn
                while seconds > 0:
                    part = min(SLICE, seconds)
                    yield self._env.timeout(part)
                    seconds -= part
                    if self._free.queue:
                        break


@dataclass(frozen=True)
class Piece:
    """A piece of work of a thread.

    Args:
        seconds: CPU time, in the mean.
        effect: called when it is done.
        at_end: the effect comes at the end of the turn, with those of the other pieces in it.
    """

    seconds: float
    effect: Callable[[], None] | None = None
    at_end: bool = False


class Thread:
    """A thread that sleeps until there is work, and then does it turn by turn.

    Args:
        env: The simulation.
        cores: Where it runs.
        turn: CPU of each turn, in seconds.
        wake: Time until it runs after a sleep.
        gathers: A turn does all that waits; otherwise what was given at once.
    """

    def __init__(self, env: simpy.Environment, cores: Cores, *, turn: float, wake: float, gathers: bool) -> None:
        self._env = env
        self._cores = cores
        self._turn = turn
        self._wake = wake
        self._gathers = gathers
        self._waiting: deque[Sequence[Piece]] = deque()
        self._sleep: simpy.Event | None = None
        self.on_turn: Callable[[], None] | None = None
        """Called at the end of each turn."""
        self.turns = 0
        self.busy = 0.0
        """CPU time so far, in seconds."""
        env.process(self._live())

    def give(self, *pieces: Piece) -> None:
        """Have the thread do some pieces of work in one turn."""
        self._waiting.append(pieces)
        if self._sleep is not None and not self._sleep.triggered:
            self._sleep.succeed()

    def _live(self) -> Steps:
        while True:
            if not self._waiting:
                self._sleep = self._env.event()
                yield self._sleep
                self._sleep = None
                if self._wake:
                    yield self._env.timeout(self._wake)
            taken = [self._waiting.popleft() for _ in range(len(self._waiting) if self._gathers else 1)]
            self.turns += 1
            yield from self._work([piece for pieces in taken for piece in pieces])
            if self.on_turn is not None:
                self.on_turn()

    def _work(self, pieces: Sequence[Piece]) -> Steps:
        turn = self._turn
        flushed = []
        for piece in pieces:
            seconds, turn = turn + self._cores.varied(piece.seconds), 0.0
            self.busy += seconds
            yield from self._cores.work(seconds)
            if piece.effect is not None and piece.at_end:
                flushed.append(piece.effect)
            elif piece.effect is not None:
                piece.effect()
        for effect in flushed:
            effect()
