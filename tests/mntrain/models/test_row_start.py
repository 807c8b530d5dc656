"""Start of a regressor's dictionary from training rows: keys, their targets and the step size.

Shapes: rows [N, F], targets [N, T], keys [S, F].
"""

import pytest
import torch
from torch import Tensor

from mntrain.layers.mlp import Mlp
from mntrain.models.meta_neighborhoods.config import MetaNeighborhoodsConfig
from mntrain.models.meta_neighborhoods.regression import MetaNeighborhoodsRegressor
from mntrain.models.meta_neighborhoods.start import row_start

CORNERS = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def groups() -> tuple[Tensor, Tensor]:
    """Four rows around each of three corners, and two targets: the row's number, and a constant."""
    around = torch.tensor([[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1]])
    rows = (CORNERS.unsqueeze(1) + around).reshape(-1, 2)
    return rows, torch.stack([torch.arange(12.0), torch.full((12,), 7.0)], dim=-1)


def test_a_center_has_the_mean_targets_of_its_rows() -> None:
    rows, targets = groups()
    keys, values = row_start(rows, targets, MetaNeighborhoodsConfig(init="data", entries=3), seed=0)
    order = torch.cdist(CORNERS, keys).argmin(dim=1)
    torch.testing.assert_close(keys[order], CORNERS, atol=1e-6, rtol=0)
    torch.testing.assert_close(values[order], torch.tensor([[1.5, 7.0], [5.5, 7.0], [9.5, 7.0]]))


def test_a_drawn_row_has_its_own_target() -> None:
    rows, targets = groups()
    config = MetaNeighborhoodsConfig(init="data", entries=5, key_source="examples")
    keys, values = row_start(rows, targets, config, seed=0)
    drawn = values[:, 0].long()
    assert len(set(drawn.tolist())) == 5
    assert torch.equal(keys, rows[drawn])
    assert not torch.equal(values, row_start(rows, targets, config, seed=1)[1]), "another seed draws other rows"


def test_more_entries_than_rows_repeat_them_apart() -> None:
    rows, targets = groups()
    keys, values = row_start(rows, targets, MetaNeighborhoodsConfig(init="data", entries=30), seed=0)
    assert torch.equal(keys[:12], rows)
    assert torch.equal(values[:12], targets)
    assert torch.equal(values[12:], targets[torch.cdist(keys[12:], rows).argmin(dim=1)])
    distance = (keys[12:] - rows.repeat(2, 1)[:18]).norm(dim=-1)
    assert 0 < distance.min() <= distance.max() < 0.5, "near the row, but not on it"


def test_centers_of_equal_rows_have_their_target() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).repeat(10, 1)
    keys, values = row_start(rows, rows[:, :1], MetaNeighborhoodsConfig(init="data", entries=6), seed=0)
    assert keys.shape == (6, 2)
    assert set(values[:, 0].tolist()) == {1.0, 3.0}
    torch.testing.assert_close(keys[:, 0], values[:, 0])


@pytest.mark.parametrize("wanted", [None, 0.5])
def test_the_step_size_changes_the_weights_by_the_stated_share(wanted: float | None) -> None:
    torch.manual_seed(0)
    config = MetaNeighborhoodsConfig(init="data", entries=6, temperature=0.1, start_change=wanted)
    model = MetaNeighborhoodsRegressor(config, Mlp(2, 2, 16, 2), ((0.0, 11.0), (7.0, 7.0)))
    rows, targets = groups()
    assert model.step_size.item() == 0, "nothing is adapted before the start"
    figures = model.start_from(rows, targets, seed=0)
    expected = 0.01 if wanted is None else wanted
    assert figures.weight_change == pytest.approx(expected, rel=0.02)
    assert model.weight_change(rows).mean().item() == pytest.approx(expected, rel=0.02)
    assert (figures.entries, figures.examples, figures.entries_of_classes) == (6, 12, ())
