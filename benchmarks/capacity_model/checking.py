"""Predictions beside measurements, on a machine with all of its cores and with fewer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from capacity_model.calibration import MANY, SIZES, fit, measure_loads, measure_runs
from capacity_model.costs import Costs, Runs
from capacity_model.load import Load
from capacity_model.serving import make_repository, running
from capacity_model.simulation import Outcome, Setup, simulate

_RUN_SECONDS = 0.5
"""Duration of a load that times runs."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured.

    Args:
        models: ONNX files; the first one gives the costs of calls.
        cores: numbers of cores, for server and load generator together.
        front_ends: numbers of front ends.
        callers: numbers of callers.
        seconds: duration of each load.
        options: further options of `mnserve serve`.
        gpu: runs take no core.
        client_threads: of the load generator.
        max_batch: most rows of a run.
        instances: engines side by side.
    """

    models: Sequence[Path]
    cores: Sequence[int]
    front_ends: Sequence[int] = (1, 2)
    callers: Sequence[int] = (1, 16, 64, 256)
    seconds: float = 1.5
    options: Sequence[str] = ()
    gpu: bool = False
    client_threads: int = 1
    max_batch: int = 32
    instances: int = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One load, measured."""

    model: Path
    cores: int
    front_ends: int
    callers: int
    measured: Load


@dataclass(frozen=True)
class Measured:
    """All loads of a plan, and the durations of runs of each model on each number of cores."""

    cells: tuple[Cell, ...]
    runs: dict[tuple[Path, int], Runs]

    def cell(self, model: Path, cores: int, callers: int) -> Cell:
        """The load with one front end."""
        wanted = (model, cores, 1, callers)
        return next(cell for cell in self.cells if (cell.model, cell.cores, cell.front_ends, cell.callers) == wanted)


def measure_plan(plan: Plan) -> Measured:
    """Run the servers of a plan one after the other, and load each.

    Raises:
        BenchError: a server does not come up.
        LoadError: calls failed.
    """
    cells, runs = [], {}
    with TemporaryDirectory() as folder:
        for number, model in enumerate(plan.models):
            make_repository(Path(folder) / str(number), model, plan.max_batch, plan.instances)
        for cores in plan.cores:
            with only_cores(cores):
                for front_ends in sorted({1, *plan.front_ends}):
                    for number, model in enumerate(plan.models):
                        with running(Path(folder) / str(number), front_ends, plan.options) as server:
                            if front_ends == 1:
                                sizes = [size for size in SIZES if size <= plan.max_batch]
                                runs[model, cores] = measure_runs(server, model, _RUN_SECONDS, sizes, gpu=plan.gpu)
                            callers = sorted({1, MANY, *plan.callers} if front_ends == 1 else set(plan.callers))
                            loads = measure_loads(server, model, callers, plan.seconds, plan.client_threads)
                        cells += [
                            Cell(model=model, cores=cores, front_ends=front_ends, callers=count, measured=load)
                            for count, load in zip(callers, loads, strict=True)
                        ]
    return Measured(tuple(cells), runs)


def costs_of(plan: Plan, measured: Measured, cores: int) -> Costs:
    """Fit the costs of calls to the first model's loads of one caller and of many, with one front end."""
    model = plan.models[0]
    alone, many = (measured.cell(model, cores, callers).measured for callers in (1, MANY))
    return fit(alone, many, measured.runs[model, cores], cores=cores, max_batch=plan.max_batch)


def predicted(plan: Plan, cell: Cell, costs: Costs) -> Outcome:
    """Simulate a load; the model's own runs are set in the costs."""
    setup = Setup(
        costs=costs,
        front_ends=cell.front_ends,
        cores=cell.cores,
        callers=cell.callers,
        spread=_exact(cell.measured.spread, cell.callers),
        client_threads=plan.client_threads,
        max_batch=plan.max_batch,
        instances=plan.instances,
    )
    slowest = cell.callers * costs.runs.of(plan.max_batch) / plan.max_batch
    return simulate(replace(setup, warm_up=max(0.3, 2 * slowest), seconds=plan.seconds))


def _exact(spread: Sequence[int], callers: int) -> Sequence[int]:
    """The callers on each front end, where all their connections were seen."""
    return spread if sum(spread) == callers else ()


@contextmanager
def only_cores(count: int) -> Iterator[None]:
    """Keep this process and those that it starts on so many of its cores for the duration of the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
