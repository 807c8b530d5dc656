"""Statistics of a measurement, on numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnserve.bench.statistics import Slot, latency, ratios, spread

positive = st.floats(min_value=1e-3, max_value=1e6)


def slot(*latencies: float, wall_s: float = 1.0) -> Slot:
    return Slot(latencies_ms=latencies, wall_s=wall_s)


def test_spread_interpolates_quartiles() -> None:
    result = spread([4.0, 1.0, 3.0, 2.0])
    assert (result.low, result.q1, result.median, result.q3, result.high) == (1.0, 1.75, 2.5, 3.25, 4.0)
    assert result.iqr == 1.5


def test_spread_of_one_value_is_that_value() -> None:
    result = spread([7.0])
    assert (result.low, result.q1, result.median, result.q3, result.high) == (7.0,) * 5


def test_spread_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        spread([])


@given(st.lists(positive, min_size=1, max_size=30))
def test_spread_is_ordered_and_ignores_order(values: list[float]) -> None:
    result = spread(values)
    assert result.low <= result.q1 <= result.median <= result.q3 <= result.high
    assert result == spread(values[::-1])


def test_latency_pools_the_calls_of_all_slots() -> None:
    result = latency([slot(*range(1, 51), wall_s=2.0), slot(*range(51, 102), wall_s=3.0)], rows=8)
    assert result.calls == 101
    assert result.p50_ms == 51.0
    assert result.p99_ms == pytest.approx(100.0)
    assert result.mean_ms == pytest.approx(51.0)
    assert result.images_per_second == pytest.approx(8 * 101 / 5.0)


def test_ratio_is_taken_round_by_round() -> None:
    # In the second round the machine is ten times slower for both: the ratio of the round does not move.
    first = [slot(2.0, 4.0, 100.0), slot(20.0, 40.0, 60.0)]
    second = [slot(1.0, 2.0, 3.0), slot(10.0, 20.0, 30.0)]
    assert ratios(first, second) == (2.0, 2.0)


def test_ratio_needs_equally_many_rounds() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios([slot(1.0)], [slot(1.0), slot(1.0)])


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20), positive)
def test_ratio_has_no_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    first, second = [slot(a) for a, _ in pairs], [slot(b) for _, b in pairs]
    scaled = ratios([slot(a * unit) for a, _ in pairs], [slot(b * unit) for _, b in pairs])
    assert ratios(first, second) == pytest.approx(scaled)
    inverse = ratios(second, first)
    assert [a * b for a, b in zip(ratios(first, second), inverse, strict=True)] == pytest.approx([1.0] * len(pairs))


def test_an_empty_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Slot(latencies_ms=(), wall_s=1.0)
