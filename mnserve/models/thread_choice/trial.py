"""Timed runs of a model with one thread and with all, and the engines that follow from them.

Shapes: a row is [1, ...]; a batch of B rows is [B, ...]; without a batch dimension B is 1 and a request is [...].
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature
from mnserve.engines.base import Engine, EngineOptions
from mnserve.errors import EngineError
from mnserve.execution.run_watch import RunWatch
from mnserve.models.joined_rows import repeated, values_differ
from mnserve.models.thread_choice.rule import CLEAR, GAIN_SECONDS, ThreadChoice, Timings, choose, shares
from mnserve.models.thread_choice.run_costs import RunCosts

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

_ROUNDS: Final = 7
"""Most timed runs of each engine and batch size."""
_PAUSE_SECONDS: Final = 0.05
"""Time before a further round where others had the CPUs."""
_FED: Final = 0.75
"""Part of the CPUs that a run with all threads takes at least where it gets them: threads without work spin."""
_FEEDS_BYTES: Final = 2**26
"""Most bytes of the inputs of a timed run."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """What is tried, and within which bounds.

    Attributes:
        cpus: CPUs that the process may use, at least 2.
        work: Request of one row that the model answers.
        costs: Times of its runs with all threads, up to the most rows that may be tried.
        extra: Engines beside the first that there is memory for.
        seconds: Time of all timed runs.
        trims: Have engines give back the memory of the larger batch.
        watch: Told of every run.
        retries: Most further rounds as long as others have the CPUs.
    """

    cpus: int
    work: InferenceWork
    costs: RunCosts
    extra: int
    seconds: float
    trims: bool
    watch: RunWatch
    retries: int = 6


@dataclass(frozen=True, kw_only=True)
class ChosenEngines:
    """Engines of a model after the choice.

    Attributes:
        engine: First engine of the model.
        options: Options of it, and of every further instance.
        instances: Instances that run side by side.
        wide: Engine with a thread for each CPU, for batches that come alone; None for none.
        wide_rows: Least rows of such a batch.
        text: What was chosen and why, as a sentence.
        costs: Times of ``engine``; None where nothing was measured.
    """

    engine: Engine
    options: EngineOptions
    instances: int = 1
    wide: Engine | None = None
    wide_rows: int = 1
    text: str
    costs: RunCosts | None = None


class ThreadTrial:
    """Tries one model.

    Args:
        engine: Engine with a thread for each CPU, warm.
        options: Options that it was opened with.
        rules: Rules for requests.
        plan: What is tried.
        open_engine: Opens the model once more.
    """

    def __init__(
        self,
        engine: Engine,
        options: EngineOptions,
        rules: RequestSignature,
        plan: TrialPlan,
        open_engine: Callable[[EngineOptions], Engine],
    ) -> None:
        self._wide, self._options, self._rules, self._plan = engine, options, rules, plan
        self._open = open_engine
        self._fed: dict[int, float] = {}
        """Rows -> largest part of the CPUs that a run of so many with all threads has got so far."""
        self._ends = time.monotonic() + plan.seconds

    def run(self) -> ChosenEngines:
        """Measures and chooses. The engines that are not returned are closed; after an error all but the first are.

        Raises:
            EngineError: The model cannot be opened with one thread, or a run fails.
        """
        rows = self._rows()
        if rows == 0 and self._plan.costs.one <= self._ends - time.monotonic():
            self._time_again()
            rows = self._rows()
        plan = self._plan
        if rows == 0:
            text = f"{plan.cpus} threads: a run takes {plan.costs.one:.2g} s, so that there is no time to try fewer"
            return ChosenEngines(engine=self._wide, options=self._options, text=text)
        single_options = replace(self._options, intra_op_threads=1)
        single = self._open(single_options)
        try:
            chosen = self._choose(single, single_options, rows)
            if chosen.costs is not None and self._was_starved(chosen.costs.most):
                chosen = replace(chosen, text=f"{chosen.text}; other processes had the CPUs meanwhile")
            for engine in (self._wide, single):
                if engine not in (chosen.engine, chosen.wide):
                    engine.close()
                elif plan.trims and rows > 1:
                    engine.trim()
                    self._time(engine, 1)
        except BaseException:
            single.close()
            raise
        return chosen

    def _choose(self, single: Engine, single_options: EngineOptions, rows: int) -> ChosenEngines:
        if self._answers_differ(single, rows):
            text = f"{self._plan.cpus} threads: with one thread the model gives other answers"
            return ChosenEngines(engine=self._wide, options=self._options, text=text)
        sizes = sorted({1, shares(rows, self._plan.cpus), rows})
        times = self._quickest([(single, size) for size in sizes] + [(self._wide, size) for size in {1, rows}])
        for _ in range(self._plan.retries):
            if not self._was_starved(times[single, rows]):
                break
            time.sleep(_PAUSE_SECONDS)
            self._improve(times)
        share = shares(rows, self._plan.cpus)
        found = Timings(
            cpus=self._plan.cpus,
            single=_costs(times, single, rows),
            # No row costs more in a batch than alone; what seems to was disturbed.
            share=min(times[single, share], share * times[single, 1]),
            wide=_costs(times, self._wide, rows),
        )
        choice = choose(found, self._plan.extra)
        if not choice.single:
            return self._with_best_spinning(choice, found.wide)
        return ChosenEngines(
            engine=single,
            options=single_options,
            instances=choice.instances,
            wide=self._wide if choice.wide_rows else None,
            wide_rows=choice.wide_rows or 1,
            text=f"{_instances(choice.instances)} of 1 thread{', and one of all' * bool(choice.wide_rows)}: "
            f"{choice.reason}",
            costs=found.single,
        )

    def _was_starved(self, seconds: float) -> bool:
        """True if runs with all threads did not get the CPUs, and could have gained from them."""
        return min(self._fed.values()) < _FED and seconds >= GAIN_SECONDS

    def _with_best_spinning(self, choice: ThreadChoice, spinning: RunCosts) -> ChosenEngines:
        """Lets threads sleep between runs, unless that costs a clear part of a run."""
        options = replace(self._options, session=replace(self._options.session, spinning=False))
        text, rows = f"{self._plan.cpus} threads: {choice.reason}", spinning.rows
        if self._plan.extra:
            asleep = self._open(options)
            self._ends = time.monotonic() + self._plan.seconds / 3
            try:
                times = self._quickest([(asleep, 1), (asleep, rows)])
                costs = _costs(times, asleep, rows)
                if not (_is_longer(costs.one, spinning.one) or _is_longer(costs.most, spinning.most)):
                    text += "; they sleep between runs, which costs next to nothing"
                    return ChosenEngines(engine=asleep, options=options, text=text, costs=costs)
            except BaseException:
                asleep.close()
                raise
            asleep.close()
            text += "; they wait for the next run awake, which is quicker"
        return ChosenEngines(engine=self._wide, options=self._options, text=text, costs=spinning)

    # Runs -----------------------------------------------------------------------------------------------------

    def _rows(self) -> int:
        """Returns the rows of the largest batch that there is time for; 0 where there is none for single rows."""
        plan = self._plan
        rows = max(1, min(plan.costs.rows, _FEEDS_BYTES // max(1, plan.work.nbytes)))
        # A first run and a timed one, with all threads and with one, which takes `cpus` times as long at most.
        left, runs = self._ends - time.monotonic(), 2 * (plan.cpus + 1)
        while rows > 1 and 2 * runs * plan.costs.at(rows) > left:
            rows //= 2
        return rows if runs * plan.costs.one <= left else 0

    def _time_again(self) -> None:
        """Runs one row once more: the first run of an engine may have taken many times as long as those after it."""
        costs = self._plan.costs
        self._plan = replace(self._plan, costs=replace(costs, one=min(costs.one, self._time(self._wide, 1))))

    def _quickest(self, runs: Sequence[tuple[Engine, int]]) -> dict[tuple[Engine, int], float]:
        """Times runs in turn, so that a moment in which the machine is busy meets all alike."""
        times = dict.fromkeys(runs, math.inf)
        for engine, rows in runs:
            self._time(engine, rows)  # the first run of a size allocates memory
        for count in range(_ROUNDS):
            if count and time.monotonic() > self._ends:
                break
            self._improve(times)
        return times

    def _improve(self, times: dict[tuple[Engine, int], float]) -> None:
        for (engine, rows), seconds in times.items():
            times[engine, rows] = min(seconds, self._time(engine, rows))

    def _time(self, engine: Engine, rows: int) -> float:
        feeds = self._feeds(rows)
        started, cpu = time.perf_counter(), time.process_time()
        self._answer(engine, feeds)
        seconds = time.perf_counter() - started
        if engine is self._wide:
            fed = (time.process_time() - cpu) / seconds / self._plan.cpus
            self._fed[rows] = max(self._fed.get(rows, 0.0), fed)
        return seconds

    def _answer(self, engine: Engine, feeds: Feeds) -> list[Array]:
        with self._plan.watch.running():
            return engine.run(feeds, self._plan.work.outputs)

    def _feeds(self, rows: int) -> Feeds:
        return self._plan.work.feeds if rows == 1 else repeated(self._plan.work.feeds, rows)

    def _answers_differ(self, single: Engine, rows: int) -> bool:
        """Compares the answers of both engines, as those of batch sizes are compared."""
        names, feeds = self._plan.work.outputs, self._feeds(rows)
        try:
            wide = dict(zip(names, self._answer(self._wide, feeds), strict=True))
            other = dict(zip(names, self._answer(single, feeds), strict=True))
        except EngineError:
            return True
        return values_differ(wide, other, self._rules) is not None


def _costs(times: Mapping[tuple[Engine, int], float], engine: Engine, rows: int) -> RunCosts:
    one = times[engine, 1]
    return RunCosts(one=one, most=min(times[engine, rows], rows * one), rows=rows)


def _is_longer(seconds: float, reference: float) -> bool:
    return seconds - reference > max(CLEAR * reference, GAIN_SECONDS)


def _instances(count: int) -> str:
    return "1 engine" if count == 1 else f"{count} engines"
