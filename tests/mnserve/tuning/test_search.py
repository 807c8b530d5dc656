"""The search and the choice, with a measurement that is a formula: noise, ties, bounds that cannot be kept, faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mnserve.bench.statistics import Slot
from mnserve.errors import TuningError
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.scores import Goal, Trial
from mnserve.tuning.search import SearchResult, search
from mnserve.tuning.space import Space

NOW = Candidate(max_batch_size=8, delay_us=0, instances=1, threads=8)
SPACE = Space(batches=(8, 16, 32), delays_us=(0, 500, 1_000, 2_000, 5_000), cpus=8)
GOAL = Goal(latency_ms=20.0, percentile=99.0, rows=1)

Formula = Callable[[Candidate], tuple[float, float]]
"""Throughput in rows a second and latency in milliseconds of a candidate."""


class Machine:
    """Measures by a formula, with noise of so many per cent that is the same in every run of the test."""

    def __init__(self, formula: Formula, noise: float = 0.0, seed: int = 0) -> None:
        self.formula = formula
        self.noise = noise
        self.asked: list[Candidate] = []
        self._random = np.random.default_rng(seed)

    def __call__(self, candidate: Candidate) -> Trial:
        self.asked.append(candidate)
        throughput, latency = self.formula(candidate)
        noise = 1 + self.noise * self._random.standard_normal()
        return trial(throughput * noise, latency * noise)


def trial(throughput: float, latency: float, callers: int = 16) -> Trial:
    return Trial(slots={callers: Slot(latencies_ms=(latency,) * 100, wall_s=100 / throughput)})


def run(machine: Callable[[Candidate], Trial], now: Candidate = NOW) -> SearchResult:
    return search(now, SPACE, machine, GOAL, repeats=5)


def rises(candidate: Candidate) -> tuple[float, float]:
    """More instances, larger batches and a delay of 1 ms are faster; threads beyond one for each instance are not."""
    delay = {0: 1.0, 500: 1.2, 1_000: 1.5, 2_000: 1.3, 5_000: 0.8}[candidate.delay_us]
    return 100.0 * candidate.instances * candidate.max_batch_size**0.5 * delay, 10.0


def test_the_best_of_every_respect_is_found_without_trying_all() -> None:
    machine = Machine(rises)
    outcome = run(machine)
    assert outcome.chosen == Candidate(max_batch_size=32, delay_us=1_000, instances=8, threads=1)
    assert len(outcome.searched) < 3 * 5 * 10  # ten pairs of threads and instances fit eight CPUs
    assert all(candidate.instances * candidate.threads <= 8 for candidate in machine.asked)


def test_an_optimum_that_depends_on_a_later_axis_is_found_in_another_pass() -> None:
    """More instances help with large batches alone, and batches are looked at after instances."""

    def formula(candidate: Candidate) -> tuple[float, float]:
        return candidate.max_batch_size * candidate.instances ** (1.0 if candidate.max_batch_size == 32 else -1.0), 10.0

    outcome = run(Machine(formula))
    assert outcome.chosen is not None
    assert (outcome.chosen.instances, outcome.chosen.max_batch_size) == (8, 32)


@pytest.mark.parametrize("seed", range(10))
def test_noise_does_not_lead_far_astray(seed: int) -> None:
    outcome = run(Machine(rises, noise=0.05, seed=seed))
    assert outcome.chosen is not None
    assert (
        rises(outcome.chosen)[0]
        >= 0.85 * rises(Candidate(max_batch_size=32, delay_us=1_000, instances=8, threads=1))[0]
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_simplest_of_equally_fast_candidates_is_chosen(seed: int) -> None:
    """A candidate that only noise makes faster is not chosen: the choice has one instance and one thread."""
    now = replace(NOW, delay_us=1_000, threads=1)
    outcome = run(Machine(lambda _: (100.0, 10.0), noise=0.01, seed=seed), now)
    assert outcome.chosen is not None
    assert (outcome.chosen.instances, outcome.chosen.threads) == (1, 1)


def test_throughput_beyond_the_bound_does_not_count() -> None:
    def formula(candidate: Candidate) -> tuple[float, float]:
        return rises(candidate)[0], 6.0 * candidate.instances

    outcome = run(Machine(formula))
    assert outcome.chosen is not None
    assert outcome.chosen.instances == 2
    assert outcome.best(outcome.chosen).keeps_bound(GOAL)
    assert any(result.tail_ms > GOAL.latency_ms for result in outcome.searched.values())


def test_a_distant_configuration_is_found_where_only_it_keeps_the_bound() -> None:
    outcome = run(Machine(lambda one: (100.0, 15.0 if one.instances == 4 else 40.0 / one.instances**0.1)))
    assert outcome.chosen is not None
    assert outcome.chosen.instances == 4


def test_nothing_is_chosen_if_no_candidate_keeps_the_bound() -> None:
    outcome = run(Machine(lambda one: (100.0, 50.0 - one.instances)))
    assert outcome.chosen is None
    assert min(result.tail_ms for result in outcome.finals.values()) == 42.0


def test_the_current_configuration_stays_without_a_better_one() -> None:
    outcome = run(Machine(lambda candidate: (200.0, 5.0) if candidate == NOW else (100.0, 10.0)))
    assert outcome.chosen == NOW
    assert NOW in outcome.finals


def test_the_finals_are_rounds_in_alternating_order_and_count_alone() -> None:
    machine = Machine(rises)
    stages: list[str] = []
    outcome = search(NOW, SPACE, machine, GOAL, repeats=4, on_trial=lambda stage, _done, _one: stages.append(stage))
    finals = machine.asked[stages.index("final") :]
    assert Counter(finals) == dict.fromkeys(outcome.finals, 4)
    size = len(outcome.finals)
    rounds = [finals[start : start + size] for start in range(0, len(finals), size)]
    assert rounds[0] == rounds[1][::-1] == rounds[2] == rounds[3][::-1]
    assert all(result.loads[0].calls == 400 for result in outcome.finals.values())
    assert max(Counter(machine.asked[: len(stages) - len(finals)]).values()) == 1  # nothing is searched twice


def test_a_lucky_measurement_is_not_believed() -> None:
    """A candidate that was fast once and is slow in the finals loses them."""
    lucky = replace(NOW, instances=2, threads=4)
    seen: Counter[Candidate] = Counter()

    def measure(candidate: Candidate) -> Trial:
        seen[candidate] += 1
        return trial(
            1_000.0 if candidate == lucky and seen[candidate] == 1 else 50.0 if candidate == lucky else 100.0, 10.0
        )

    outcome = run(measure)
    assert lucky in outcome.finals
    assert outcome.searched[lucky].rows_per_second == pytest.approx(1_000)
    assert outcome.best(lucky).rows_per_second == pytest.approx(50)
    assert outcome.chosen != lucky


def test_a_candidate_that_fails_is_out_and_the_search_goes_on() -> None:
    def measure(candidate: Candidate) -> Trial:
        return Trial(fault="no memory") if candidate.instances > 2 else trial(100.0 * candidate.instances, 10.0)

    outcome = run(measure)
    assert outcome.chosen is not None
    assert outcome.chosen.instances == 2
    assert {candidate.instances for candidate, result in outcome.searched.items() if result.fault} == {4, 8}
    assert not any(result.fault for result in outcome.finals.values())


def test_a_candidate_that_failed_is_no_finalist() -> None:
    space = Space(batches=(8,), delays_us=(0,), cpus=2)
    now = replace(NOW, threads=2)

    def measure(candidate: Candidate) -> Trial:
        return trial(100, 10) if candidate == now else Trial(fault="lost")

    outcome = search(now, space, measure, GOAL, repeats=1)
    assert (list(outcome.finals), outcome.chosen) == ([now], now)
    assert len(outcome.searched) == 3


def test_a_candidate_that_fails_in_the_finals_is_not_chosen() -> None:
    seen: Counter[Candidate] = Counter()

    def measure(candidate: Candidate) -> Trial:
        seen[candidate] += 1
        return (
            Trial(fault="lost")
            if candidate.instances == 8 and seen[candidate] > 2
            else trial(100.0 * candidate.instances, 10.0)
        )

    outcome = run(measure)
    assert any(candidate.instances == 8 and result.fault == "lost" for candidate, result in outcome.finals.items())
    assert outcome.chosen is None or outcome.chosen.instances < 8


def test_a_current_configuration_that_cannot_be_measured_ends_the_search() -> None:
    with pytest.raises(TuningError, match=r"configured now cannot be measured, .*: the queue is full"):
        run(lambda _: Trial(fault="the queue is full"))


def test_errors_of_the_measurement_end_the_search() -> None:
    def interrupted(_: Candidate) -> Trial:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted)
