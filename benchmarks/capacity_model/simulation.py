"""A server and its callers under simulated time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import simpy

from capacity_model.batching import Call, Rule, Waiting, served_rule
from capacity_model.cores import Cores, Piece, Steps, Thread
from capacity_model.costs import Costs
from capacity_model.engine import EngineProcess

_IN_SHARE = 0.6
"""Share of a front end's CPU for a call that goes into taking it in; the rest answers it."""
_SEND_GAP = 0.00002
"""Seconds between the first calls of the callers."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A server, its machine, and its load.

    Args:
        costs: what everything takes.
        front_ends: processes that take calls in; 0 does everything in one process.
        cores: cores that server and callers share; None where there is always a free one.
        callers: callers that ask again once they are answered; 0 for `rate`.
        rate: calls a second that come by chance, whatever is answered.
        spread: number of callers on each front end; empty spreads them by chance.
        client_here: the load generator runs on the same cores.
        client_threads: its threads.
        max_batch: most rows of a run.
        instances: engines that run batches side by side.
        rule: makes the rule of the moment.
        seconds: simulated time that counts.
        warm_up: simulated time before it.
        varied: pieces of work take more or less than their time, which they take in the mean.
        seed: of everything that is left to chance.
    """

    costs: Costs
    front_ends: int = 1
    cores: int | None = None
    callers: int = 0
    rate: float = 0.0
    spread: Sequence[int] = ()
    client_here: bool = True
    client_threads: int = 1
    max_batch: int = 32
    instances: int = 1
    rule: Callable[[Waiting], Rule] = served_rule
    seconds: float = 1.0
    warm_up: float = 0.3
    varied: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a simulated load gave.

    Args:
        rate: answered calls a second.
        mean, p50, p99: seconds from sending a call to reading its answer.
        rows: rows of a run, in the mean.
        cpu: seconds on cores for a call, in the mean.
        turns: turns of each kind of thread for a call, by field of :class:`Costs`.
        use: share of the time in which each part is busy; the busiest front end counts.
    """

    rate: float
    mean: float
    p50: float
    p99: float
    rows: float
    cpu: float
    turns: dict[str, float]
    use: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """Part that is busiest."""
        return max(self.use, key=lambda name: self.use[name])


@dataclass
class _Server:
    env: simpy.Environment
    setup: Setup
    cores: Cores
    dice: random.Random | None
    clients: list[Thread] = field(init=False)
    transports: list[Thread] = field(init=False)
    loops: list[Thread] = field(init=False)
    engine: EngineProcess = field(init=False)

    def __post_init__(self) -> None:
        setup, costs, env = self.setup, self.setup.costs, self.env
        places = range(max(1, setup.front_ends))
        clients = self.cores if setup.client_here else Cores(env, None, self.dice)
        client = costs.client.turn if setup.client_here else 0.0
        self.clients = [
            Thread(env, clients, turn=client, wake=costs.wake, gathers=True) for _ in range(setup.client_threads)
        ]
        # gRPC for Python hands calls to the event loop one by one.
        self.transports, self.loops = (
            [Thread(env, self.cores, turn=turn, wake=costs.wake, gathers=False) for _ in places]
            for turn in (costs.transport.turn, costs.front_end.turn)
        )
        self.engine = EngineProcess(
            env,
            self.cores,
            costs,
            max_batch=setup.max_batch,
            instances=setup.instances,
            rule=setup.rule,
            deliver=self.deliver,
            loop=None if setup.front_ends else self.loops[0],
        )

    def send(self, call: Call) -> None:
        """Have a call come in at its front end."""
        costs, loop = self.setup.costs, self.loops[call.front_end]
        take_in = Piece(costs.front_end.call * _IN_SHARE, partial(self.engine.submit, call), at_end=True)
        self.transports[call.front_end].give(Piece(costs.transport.call / 2, partial(loop.give, take_in)))

    def deliver(self, calls: Sequence[Call]) -> None:
        """Have the front ends answer the calls of a run, each all of its own in one turn."""
        seconds = self.setup.costs.front_end.call * (1 - _IN_SHARE)
        for place, loop in enumerate(self.loops):
            if pieces := [Piece(seconds, partial(self._write, call)) for call in calls if call.front_end == place]:
                loop.give(*pieces)

    def _write(self, call: Call) -> None:
        costs = self.setup.costs
        self.clients[call.client].give(Piece(costs.client.call if self.setup.client_here else 0.0, call.reply))
        self.transports[call.front_end].give(Piece(costs.transport.call / 2))


def simulate(setup: Setup) -> Outcome:
    """Run a server under load, and measure it after the warm-up. The same setup gives the same outcome.

    Raises:
        ValueError: there is no load, or the spread does not fit.
    """
    if (setup.callers > 0) == (setup.rate > 0):
        raise ValueError("give either callers or a rate of calls")
    env, dice = simpy.Environment(), random.Random(setup.seed)
    varied = dice if setup.varied else None
    server = _Server(env, setup, Cores(env, setup.cores, varied), varied)
    latencies: list[float] = []
    start = setup.warm_up

    def ended(sent: float) -> None:
        if env.now >= start:
            latencies.append(env.now - sent)

    def call_again(place: int, client: int) -> None:
        sent = env.now

        def answered() -> None:
            ended(sent)
            call_again(place, client)

        server.send(Call(place, answered, client))

    def first_call(number: int, place: int) -> Steps:
        yield env.timeout(number * _SEND_GAP)
        call_again(place, number % setup.client_threads)

    def come_by_chance() -> Steps:
        places = range(len(server.loops))
        while True:
            yield env.timeout(dice.expovariate(setup.rate))
            server.send(Call(dice.choice(places), partial(ended, env.now), dice.randrange(setup.client_threads)))

    if setup.callers:
        for number, place in enumerate(_spread(setup, dice)):
            env.process(first_call(number, place))
    else:
        env.process(come_by_chance())
    env.run(start)
    before = _counts(server)
    env.run(start + setup.seconds)
    spent = _counts(server)
    spent.subtract(before)
    return _outcome(setup, latencies, spent)


def _spread(setup: Setup, dice: random.Random) -> list[int]:
    places = max(1, setup.front_ends)
    if not setup.spread:
        return [dice.randrange(places) for _ in range(setup.callers)]
    if len(setup.spread) != places or sum(setup.spread) != setup.callers:
        raise ValueError(f"{list(setup.spread)} does not spread {setup.callers} callers over {places} front ends")
    return [place for place, count in enumerate(setup.spread) for _ in range(count)]


def _counts(server: _Server) -> Counter[str]:
    engine = server.engine
    counts: Counter[str] = Counter(runs=engine.runs, rows=engine.rows)
    values = {
        "t client": sum(thread.turns for thread in server.clients),
        "t transport": sum(thread.turns for thread in server.transports),
        "t front_end": sum(thread.turns for thread in server.loops),
        "t engine": engine.loop.turns,
        "runs s": engine.running / server.setup.instances,
        "engine process s": engine.loop.busy,
        "client s": max(thread.busy for thread in server.clients),
        "cores s": server.cores.used,
        **{f"front end {place} s": thread.busy for place, thread in enumerate(server.loops)},
    }
    counts.update(values)
    return counts


def _outcome(setup: Setup, latencies: list[float], spent: Counter[str]) -> Outcome:
    seconds, count = setup.seconds, max(1, len(latencies))
    ranked = sorted(latencies) or [float("inf")]
    use = {
        "front ends": max(spent[f"front end {place} s"] for place in range(max(1, setup.front_ends))) / seconds,
        "engine process": spent["engine process s"] / seconds,
        "runs": spent["runs s"] / seconds,
    }
    if setup.client_here:
        use["load generator"] = spent["client s"] / seconds
    if setup.cores:
        use["cores"] = spent["cores s"] / seconds / setup.cores
    return Outcome(
        rate=len(latencies) / seconds,
        mean=sum(ranked) / len(ranked),
        p50=ranked[len(ranked) // 2],
        p99=ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))],
        rows=spent["rows"] / max(1, spent["runs"]),
        cpu=spent["cores s"] / count,
        turns={name: spent[f"t {name}"] / count for name in ("client", "transport", "front_end", "engine")},
        use=use,
    )
