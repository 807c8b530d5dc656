"""Small pictures of numbers: their colours, and where they stand."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from mntrain.plotting.panels import Panel, Shades, draw_panels, panel_size


def test_colours_reach_as_far_on_both_sides_as_the_farthest_value() -> None:
    shades = Shades.around(1.0, [np.array([[0.5, np.nan]]), np.array([[1.2]])])
    assert (shades.low, shades.high) == (0.5, 1.5)
    assert Shades.upwards([np.array([[0.5, np.nan]]), np.array([[2.0]])]).high == 2.0


def test_equal_values_have_colours_too() -> None:
    for shades in (Shades.around(1.0, [np.ones((2, 2))]), Shades.upwards([np.zeros((2, 2))])):
        assert shades.low < shades.high


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (4, 1), (5, 2)])
def test_panels_stand_in_rows_and_the_rest_stays_empty(count: int, rows: int) -> None:
    drawing = Figure(figsize=panel_size(count))
    panels = [Panel(pixels=np.full((2, 3), index), title=str(index), note="x") for index in range(count)]
    draw_panels(drawing, panels, Shades(colors="viridis", low=0, high=4))
    shown = [axes for axes in drawing.axes if axes.get_images()]
    assert [axes.get_title() for axes in shown] == [f"{index}\nx" for index in range(count)]
    assert {axes.get_images()[0].get_clim() for axes in shown} == {(0, 4)}
    grid = shown[0].get_gridspec()
    assert grid is not None
    assert grid.nrows == rows


def test_a_panel_with_shades_of_its_own_does_not_make_the_bar() -> None:
    own = Panel(pixels=np.ones((2, 2)), shades=Shades(colors="gray", low=0, high=9))
    drawing = Figure()
    draw_panels(drawing, [own, Panel(pixels=np.ones((2, 2)))], Shades(colors="viridis", low=0, high=4, label="bar"))
    bar = drawing.axes[-1]
    assert bar.get_ylabel() == "bar"
    assert bar.get_ylim() == (0, 4)
