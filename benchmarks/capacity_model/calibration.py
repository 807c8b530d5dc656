"""From loads of a real server to the costs of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from capacity_model.costs import Costs, Runs, Work
from capacity_model.load import Load, load, write_body
from capacity_model.serving import Server
from capacity_model.simulation import Outcome, Setup, simulate

MANY = 64
"""Callers of the load that shows the costs of a busy server."""
SIZES = (1, 2, 4, 8, 16, 32)
"""Rows at which runs are timed, as far as the largest batch goes."""
_ROUNDS = 3
"""Rounds in which the turns of threads and their costs are found from one another."""
_PARTS = ("client", "transport", "front_end", "engine")


def measure_runs(server: Server, model: Path, seconds: float, sizes: Sequence[int] = SIZES, *, gpu: bool) -> Runs:
    """Time the runs of a model by rows, on a server that has nothing else to do.

    On a core that is the CPU time of the engine's threads, which other work on the machine does not lengthen.

    Args:
        server: a server that runs, its engines with one thread each.
        model: its ONNX file.
        seconds: duration of a load with each size.
        sizes: rows, rising.
        gpu: the runs take no core; the server's statistics say how long they last.
    """
    times = []
    with TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        for rows in sizes:
            write_body(model, rows, body)
            before = server.runs()
            done = load(server, body, 1, seconds, rows=rows, warm_up=0.0)
            after = server.runs()
            count = after.counts[rows] - before.counts.get(rows, 0)
            lasted = (after.seconds[rows] - before.seconds.get(rows, 0.0)) / count
            times.append(lasted if gpu else done.cpu.runner / done.runs)
    return Runs(tuple(sizes), tuple(times), not gpu)


def measure_loads(server: Server, model: Path, callers: Sequence[int], seconds: float, threads: int = 1) -> list[Load]:
    """Load a server with each number of callers in turn."""
    with TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        write_body(model, 1, body)
        return [load(server, body, count, seconds, threads=threads) for count in callers]


def fit(alone: Load, many: Load, runs: Runs, *, cores: int, max_batch: int = 32) -> Costs:
    """Find the costs with which the simulation takes the CPU that was measured, in both loads.

    A thread takes `turn` for each turn and `call` for each call. Its CPU for a call is known for two loads, and the
    simulation knows the turns for a call.

    Args:
        alone: the load of one caller, on a server with one front end.
        many: that of :data:`MANY` callers.
        runs: durations of the runs.
        cores: cores that the server and the load generator had.
        max_batch: most rows of a run.
    """
    client, transport, front_end, engine = (Work(0.0, cpu) for cpu in _cpu(many))
    costs = Costs(client, transport, front_end, engine, 0.0, runs)
    base = Setup(costs=costs, cores=cores, max_batch=max_batch, seconds=0.3, warm_up=0.1)
    for _ in range(_ROUNDS):
        singly, busy = (simulate(replace(base, costs=costs, callers=callers)) for callers in (1, MANY))
        works = [
            _solve(one, both, singly.turns[part], busy.turns[part])
            for part, one, both in zip(_PARTS, _cpu(alone), _cpu(many), strict=True)
        ]
        client, transport, front_end, engine = works
        costs = Costs(client, transport, front_end, engine, _wake(alone, costs, base, singly), runs)
    return costs


def _cpu(measured: Load) -> tuple[float, float, float, float]:
    cpu = measured.cpu
    return measured.client, cpu.transport, cpu.front_end, cpu.engine


def _solve(alone: float, many: float, turns_alone: float, turns_many: float) -> Work:
    """Find turn and call with alone = turn · turns_alone + call and many = turn · turns_many + call."""
    apart = turns_alone - turns_many
    turn = min(max(0.0, (alone - many) / apart), alone / turns_alone) if apart > 0.05 else 0.0
    return Work(turn, max(0.0, many - turn * turns_many))


def _wake(alone: Load, costs: Costs, base: Setup, singly: Outcome) -> float:
    """Find the time that a thread takes to wake up, with which a single caller waits as long as was measured."""
    more = 1e-4
    later = simulate(replace(base, costs=replace(costs, wake=costs.wake + more), callers=1))
    slope = max(1.0, (later.p50 - singly.p50) / more)
    return min(1e-3, max(0.0, costs.wake + (alone.p50 - singly.p50) / slope))
