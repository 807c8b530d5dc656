"""The engine process: its event loop queues calls and forms batches, a thread runs them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import simpy

from capacity_model.batching import Call, Rule, Taken, Waiting
from capacity_model.cores import Cores, Piece, Steps, Thread
from capacity_model.costs import Costs


class EngineProcess:
    """One engine process with the instances of one model.

    Args:
        env: The simulation.
        cores: Cores of the machine.
        costs: What everything takes.
        max_batch: Most rows of a run.
        instances: Engines that run batches side by side.
        rule: Makes the rule of the moment for the queue.
        deliver: Hands the answers of a run to the front ends of their calls.
        loop: Event loop to share; None makes one.
    """

    def __init__(
        self,
        env: simpy.Environment,
        cores: Cores,
        costs: Costs,
        *,
        max_batch: int,
        instances: int,
        rule: Callable[[Waiting], Rule],
        deliver: Callable[[Sequence[Call]], None],
        loop: Thread | None = None,
    ) -> None:
        self._env = env
        self._cores = cores
        self._costs = costs
        self._max_batch = max_batch
        self._instances = instances
        self._deliver = deliver
        self._waiting = Waiting(env)
        self._rule = rule(self._waiting)
        self.loop = loop or Thread(env, cores, turn=costs.engine.turn, wake=costs.wake, gathers=True)
        self.loop.on_turn = self._after_turn
        self._put = simpy.Store(env)
        self._outstanding = 0
        self._prepared = False
        self._timer = 0
        self._delayed = False
        self.runs = self.rows = 0
        self.running = 0.0
        """Time in runs so far, in seconds."""
        for _ in range(instances):
            env.process(self._run())

    def submit(self, call: Call) -> None:
        """Take a call from a front end."""
        self.loop.give(Piece(self._costs.engine.call / 2, lambda: self._waiting.add(call)))

    def _after_turn(self) -> None:
        full = len(self._waiting) >= self._max_batch
        if not self._delayed or full or self._waiting.arrivals >= self._rule.enough_at:
            self._form()

    def _form(self) -> None:
        self._timer += 1
        self._delayed = False
        while len(self._waiting):
            full = len(self._waiting) >= self._max_batch
            if self._outstanding >= self._instances:
                if full and not self._prepared:  # the next one is laid out while a run goes on
                    self._prepared = True
                    self._put_next()
                return
            if not full and (remaining := self._rule.remaining()) > 0:
                self._delayed = True
                self._env.process(self._later(remaining, self._timer))
                return
            self._put_next()

    def _put_next(self) -> None:
        self._outstanding += 1
        self._put.put(self._waiting.take(self._max_batch))

    def _later(self, seconds: float, timer: int) -> Steps:
        yield self._env.timeout(seconds)
        if timer == self._timer:
            self.loop.give(Piece(0.0))
            self._delayed = False

    def _run(self) -> Steps:
        costs = self._costs
        while True:
            idle = not self._put.items
            batch: Taken = yield self._put.get()
            if idle and costs.wake:
                yield self._env.timeout(costs.wake)
            began, seconds = self._env.now, costs.runs.of(batch.rows)
            if costs.runs.on_core:
                yield from self._cores.work(seconds)
            else:
                yield self._env.timeout(seconds)
            took = self._env.now - began
            self.running += took
            self.runs += 1
            self.rows += batch.rows
            self.loop.give(Piece(costs.engine.call / 2 * batch.rows, partial(self._done, batch, took)))

    def _done(self, batch: Taken, took: float) -> None:
        self._outstanding -= 1
        self._prepared = False
        self._rule.on_answered(batch, round(took * self._costs.runs.share_of(batch.rows) * 1e9))
        self._deliver(batch.requests)
