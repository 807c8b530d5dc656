"""Grids that are widened while the best value lies at an end."""

from __future__ import annotations

import pytest

from mntrain.heads.grid import Grid, GridChoice, Rank

GRID = Grid(name="C", values=(0.1, 1.0, 10.0), least=1e-3, most=1e4, factor=10.0)


def chosen(best: float, grid: Grid = GRID) -> GridChoice:
    """Choose where the nearest value to ``best`` is the best one."""
    return grid.choose(lambda value: (0.5, -abs(value - best)))


def test_a_best_value_inside_is_chosen_from_the_grid_alone() -> None:
    assert chosen(1.2) == GridChoice(value=1.0, values=(0.1, 1.0, 10.0))


@pytest.mark.parametrize(
    ("best", "value", "values"),
    [(900, 1000, (0.1, 1, 10, 100, 1000, 10_000)), (0.012, 0.01, (0.001, 0.01, 0.1, 1, 10))],
)
def test_a_best_value_outside_is_found(best: float, value: float, values: tuple[float, ...]) -> None:
    assert chosen(best) == GridChoice(value=value, values=values)


@pytest.mark.parametrize(("best", "value", "end"), [(1e9, 1e4, "largest"), (0, 1e-3, "least")])
def test_a_limit_is_told(best: float, value: float, end: str) -> None:
    found = chosen(best)
    assert found.value == value
    assert found.notes == (f"C {value:g} is the best on the validation rows, and the {end} that is tried",)


def test_limits_between_steps_are_tried_themselves() -> None:
    found = chosen(1e9, Grid(name="k", values=(1, 2, 50), least=1, most=70, factor=2))
    assert found.values == (1, 2, 50, 70)


def test_scores_that_are_not_finite_are_the_worst() -> None:
    def rank(value: float) -> Rank:
        return (1.0, float("nan")) if value > 1 else (0.0, value)

    assert GRID.choose(rank).value == 1.0


def test_of_equally_good_values_the_least_is_chosen() -> None:
    grid = Grid(name="k", values=(1, 2, 3), least=1, most=9, factor=2)
    assert grid.choose(lambda value: (1.0, 0.0)).value == 1
