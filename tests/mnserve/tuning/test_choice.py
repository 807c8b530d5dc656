"""Scores of several loads, and what is a tie."""

from __future__ import annotations

import pytest

from mnserve.bench.statistics import Slot
from mnserve.tuning.candidate import Candidate
from mnserve.tuning.choice import choose
from mnserve.tuning.scores import Goal, Trial, score

GOAL = Goal(latency_ms=20.0, percentile=90.0, rows=2)
PLAIN = Candidate(max_batch_size=8, delay_us=0, instances=1, threads=1)
DELAYED = Candidate(max_batch_size=8, delay_us=500, instances=1, threads=1)
LARGER = Candidate(max_batch_size=16, delay_us=0, instances=1, threads=1)
TWIN = Candidate(max_batch_size=8, delay_us=0, instances=2, threads=1)


def slot(throughput: float, latency: float) -> Slot:
    return Slot(latencies_ms=(latency,) * 10, wall_s=10 * GOAL.rows / throughput)


def rounds(*throughputs: float, latency: float = 10.0) -> list[Trial]:
    return [Trial(slots={4: slot(value, latency)}) for value in throughputs]


def test_a_score_has_the_worst_of_the_loads() -> None:
    slots = {1: Slot(latencies_ms=tuple(range(1, 11)), wall_s=1.0), 16: slot(80.0, 30.0)}
    result = score([Trial(slots=slots), Trial(slots=slots)], GOAL)
    assert [load.callers for load in result.loads] == [1, 16]
    single, sixteen = result.loads
    assert (single.calls, single.p50_ms, single.tail_ms) == (20, 5.0, 9.0)  # values that were measured
    assert single.rows_per_second == pytest.approx(20)
    assert sixteen.rows_per_second == pytest.approx(80)
    assert result.rows_per_second == pytest.approx(40)  # the geometric mean
    assert result.tail_ms == 30.0
    assert not result.keeps_bound(GOAL)
    assert result.keeps_bound(Goal(latency_ms=30.0, percentile=90.0, rows=2))


def test_one_busy_round_does_not_decide() -> None:
    trials = [*rounds(100, 110, latency=10), *rounds(20, latency=500)]
    assert score(trials, GOAL).tail_ms == 10
    assert score(trials, GOAL).rows_per_second == pytest.approx(100)
    assert not score([*trials, *rounds(20, 20, latency=500)], GOAL).keeps_bound(GOAL)


def test_a_score_without_trials_is_refused_and_a_fault_leaves_no_figures() -> None:
    with pytest.raises(ValueError, match="no trials"):
        score([], GOAL)
    result = score([*rounds(100), Trial(fault="lost")], GOAL)
    assert (result.loads, result.fault) == ((), "lost")
    assert not result.keeps_bound(GOAL)


def test_failures_rank_behind_those_that_miss_the_bound_and_they_behind_the_others() -> None:
    ranked = [rounds(100), rounds(50), rounds(900, latency=21), rounds(900, latency=99), [Trial(fault="lost")]]
    ranks = [score(trials, GOAL).rank(GOAL) for trials in ranked]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


def test_a_clear_lead_wins() -> None:
    assert choose({PLAIN: rounds(100, 100, 100), TWIN: rounds(120, 121, 119)}, GOAL, PLAIN) == TWIN


@pytest.mark.parametrize("other", [DELAYED, TWIN, LARGER])
def test_a_tie_goes_to_the_simpler_one(other: Candidate) -> None:
    trials = {other: rounds(101, 102, 101), PLAIN: rounds(100, 100, 100)}
    assert choose(trials, GOAL, PLAIN) == PLAIN


def test_a_tie_goes_to_the_lower_latency_first() -> None:
    trials = {PLAIN: rounds(101, 102, 101, latency=15), TWIN: rounds(100, 100, 100, latency=10)}
    assert choose(trials, GOAL, PLAIN) == TWIN


def test_the_batch_size_that_is_configured_breaks_the_last_tie() -> None:
    trials = {PLAIN: rounds(100, 100), LARGER: rounds(100, 100)}
    assert choose(trials, GOAL, PLAIN) == PLAIN
    assert choose(trials, GOAL, LARGER) == LARGER


def test_rounds_are_compared_one_by_one() -> None:
    """Both were slow in the same minute: the second is better in each of them, by much more than a tie allows."""
    assert choose({PLAIN: rounds(100, 10, 100), TWIN: rounds(115, 11.5, 115)}, GOAL, PLAIN) == TWIN


def test_a_lead_that_is_lost_in_some_rounds_is_none() -> None:
    assert choose({PLAIN: rounds(90, 94, 95, 105, 106), TWIN: rounds(*[104] * 5)}, GOAL, PLAIN) == PLAIN
    # ... unless it is large in most of them.
    assert choose({PLAIN: rounds(50, 50, 50, 105, 106), TWIN: rounds(*[104] * 5)}, GOAL, PLAIN) == TWIN


def test_only_those_that_keep_the_bound_are_compared() -> None:
    assert choose({PLAIN: rounds(100, 100, latency=19), TWIN: rounds(500, 500, latency=21)}, GOAL, PLAIN) == PLAIN
    assert choose({PLAIN: rounds(100, latency=21), TWIN: [Trial(fault="lost")]}, GOAL, PLAIN) is None
    assert choose({}, GOAL, PLAIN) is None


@pytest.mark.parametrize(
    ("percentile", "calls"), [(50.0, 2), (90.0, 10), (95.0, 20), (99.0, 100), (99.9, 1000), (100.0, 1)]
)
def test_a_percentile_needs_enough_calls_to_differ_from_the_slowest(percentile: float, calls: int) -> None:
    goal = Goal(latency_ms=10.0, percentile=percentile, rows=1)
    assert goal.least_calls == calls

    def tail(number: int) -> float:
        latencies = (1.0,) * (number - 1) + (9.0,)
        result = score([Trial(slots={1: Slot(latencies_ms=latencies, wall_s=1.0)})], goal)
        assert result.has_enough_calls(goal) == (number >= calls)
        return result.tail_ms

    assert tail(calls) == (1.0 if percentile < 100 else 9.0)
    if calls > 1:
        assert tail(calls - 1) == 9.0


def test_the_round_with_the_fewest_calls_counts() -> None:
    slots = [Slot(latencies_ms=(1.0,) * count, wall_s=1.0) for count in (30, 9, 30)]
    result = score([Trial(slots={1: slot}) for slot in slots], GOAL)
    assert (result.loads[0].calls, result.least_calls) == (69, 9)
    assert not result.has_enough_calls(GOAL)
