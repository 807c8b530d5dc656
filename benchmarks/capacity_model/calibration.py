"""From loads of a real server to the costs of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from capacity_model.costs import Costs, Runs, Work
from capacity_model.load import Load, load, write_body
from capacity_model.serving import Server
from capacity_model.simulation import Setup, simulate

MANY = 64
"""Callers of the load that shows the costs of a busy server."""
SIZES = (1, 2, 4, 8, 16, 32)
"""Rows at which runs are timed, as far as the largest batch goes."""
_PROBE = 1e-4
"""Time to wake up with which one caller is simulated, in seconds."""


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
    times, computing = [], []
    with TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        for rows in sizes:
            write_body(model, rows, body)
            before = server.runs()
            done = load(server, body, 1, seconds, rows=rows, warm_up=0.0)
            after = server.runs()
            count = after.counts[rows] - before.counts.get(rows, 0)
            lasted, computed = (
                (later[rows] - earlier.get(rows, 0.0)) / count
                for earlier, later in ((before.seconds, after.seconds), (before.computing, after.computing))
            )
            times.append(lasted if gpu else done.cpu.runner / done.runs)
            computing.append(min(1.0, computed / times[-1]))
    return Runs(tuple(sizes), tuple(times), not gpu, tuple(computing))


def measure_loads(server: Server, model: Path, callers: Sequence[int], seconds: float, threads: int = 1) -> list[Load]:
    """Load a server with each number of callers in turn."""
    with TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        write_body(model, 1, body)
        return [load(server, body, count, seconds, threads=threads) for count in callers]


def fit(alone: Load, many: Load, runs: Runs, *, cores: int, max_batch: int = 32) -> Costs:
    """Find the costs of a server from two loads of it with one front end.

    An event loop takes `turn` for each turn and `call` for each call. A call comes in a turn of its own, and those of
    a run share the turn of their answers. So both loads have known turns for a call, and a known CPU.

    Args:
        alone: the load of one caller.
        many: that of :data:`MANY` callers.
        runs: durations of the runs.
        cores: cores that the server and the load generator had.
        max_batch: most rows of a run.
    """
    costs = Costs(
        client=Work(0.0, many.client),
        transport=Work(0.0, many.cpu.transport),
        front_end=_solve(alone.cpu.front_end, many.cpu.front_end, alone, many),
        engine=_solve(alone.cpu.engine, many.cpu.engine, alone, many),
        wake=0.0,
        runs=runs,
    )
    base = Setup(costs=costs, cores=cores, callers=1, max_batch=max_batch, seconds=0.2, warm_up=0.05)
    p50s = [simulate(replace(base, costs=replace(costs, wake=wake))).p50 for wake in (0.0, _PROBE)]
    wake = (alone.p50 - p50s[0]) / max(1e-9, p50s[1] - p50s[0]) * _PROBE
    return replace(costs, wake=max(0.0, wake))


def _solve(cpu_alone: float, cpu_many: float, alone: Load, many: Load) -> Work:
    """Find turn and call with CPU = turn · (1 + runs for a call) + call in both loads."""
    apart = alone.runs - many.runs
    turn = min(max(0.0, (cpu_alone - cpu_many) / apart), cpu_alone / (1 + alone.runs)) if apart > 0.05 else 0.0
    return Work(turn, max(0.0, cpu_many - turn * (1 + many.runs)))
