"""Rule of threads and instances: clear gains count, and only those that a caller would notice."""

from __future__ import annotations

import pytest

from mnserve.models.thread_choice.rule import Timings, choose, shares
from mnserve.models.thread_choice.run_costs import RunCosts


def timings(
    single: tuple[float, float], wide: tuple[float, float], *, rows: int = 32, cpus: int = 2, share: float | None = None
) -> Timings:
    """Times in milliseconds, of one row and of all rows."""
    ms = [value / 1e3 for value in (*single, *wide)]
    return Timings(
        cpus=cpus,
        single=RunCosts(one=ms[0], most=ms[1], rows=rows),
        share=ms[1] / cpus if share is None else share / 1e3,
        wide=RunCosts(one=ms[2], most=ms[3], rows=rows),
    )


def test_a_tiny_model_gets_one_thread_though_threads_divide_its_time() -> None:
    choice = choose(timings((0.011, 0.058), (0.010, 0.035)), extra=100)
    assert (choice.single, choice.instances, choice.wide_rows) == (True, 1, 0)
    assert choice.reason.startswith("2 threads gain too little (1 row 0.011 ms with 1 thread, 0.01 with 2; 32 rows")


def test_a_model_that_gains_gets_engines_for_crowds_and_one_for_batches_that_come_alone() -> None:
    choice = choose(timings((1.17, 36.4), (0.67, 18.6)), extra=70)
    assert (choice.single, choice.instances, choice.wide_rows) == (True, 2, 1)


def test_a_model_that_gains_in_large_batches_alone_runs_small_ones_as_others() -> None:
    choice = choose(timings((0.3, 8.0), (0.28, 4.4)), extra=70)
    assert (choice.single, choice.wide_rows) == (True, 32)


@pytest.mark.parametrize(("wide", "single"), [(1.0, True), (0.87, True), (0.84, False)])
def test_a_gain_has_to_be_clear(wide: float, single: bool) -> None:
    assert choose(timings((1.0, 1.0), (wide, wide), rows=1, share=1.0), extra=0).single is single


def test_a_model_of_long_runs_that_threads_do_not_help_gets_an_engine_for_each_cpu() -> None:
    found = timings((5.0, 160.0), (5.0, 158.0), cpus=8)
    assert (choose(found, extra=70).instances, choose(found, extra=2).instances) == (8, 3)


def test_calls_that_cost_more_than_their_runs_leave_cpus_to_whoever_takes_them_in() -> None:
    found = timings((0.06, 1.6), (0.06, 1.55), cpus=16)
    assert choose(found, extra=70).instances == 3


def test_a_model_whose_weights_are_read_for_every_run_keeps_its_rows_together() -> None:
    """Sixteen engines would read them sixteen times for a crowd that one run answers."""
    choice = choose(timings((10.0, 14.0), (3.0, 3.5), cpus=16, share=10.5), extra=70)
    assert (choice.single, choice.instances) == (False, 1)
    assert "also for many callers" in choice.reason


def test_a_model_that_is_too_large_to_be_loaded_twice_keeps_all_threads() -> None:
    choice = choose(timings((1.17, 36.4), (0.67, 18.6)), extra=0)
    assert (choice.single, choice.instances) == (False, 1)


def test_every_row_has_an_engine() -> None:
    assert [shares(rows, 4) for rows in (1, 4, 5, 32)] == [1, 1, 2, 8]
