"""Bounds of coefficients and the start within them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mntrain.heads.alpha.clamp import coefficient_bounds, inside_start
from mntrain.heads.alpha.config import AlphaConfig

GAMMAS = st.floats(0.01, 0.99)


def config(gamma: float, neighbors: int, clamp: Any = "both") -> AlphaConfig:
    return AlphaConfig(gamma=gamma, neighbors=neighbors, clamp=clamp)


@given(gamma=GAMMAS, raw=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8), clamp=st.sampled_from(["both", "own"]))
def test_clamped_coefficients_keep_the_bounds(gamma: float, raw: list[float], clamp: str) -> None:
    count = len(raw) - 1
    values = torch.tensor(raw, dtype=torch.float64)
    own, *others = coefficient_bounds(config(gamma, count, clamp), torch.float64).clamp(values[None])[0].tolist()
    assert 0 <= own <= gamma
    if clamp == "both":
        assert all((1 - gamma) / count <= other <= 1 - gamma for other in others)
    else:
        assert others == raw[1:]


def test_bounds_are_those_of_table_3() -> None:
    bounds = coefficient_bounds(AlphaConfig(gamma=0.7, neighbors=5))
    assert bounds.lower.tolist() == pytest.approx([0, *(0.06,) * 5])
    assert bounds.upper.tolist() == pytest.approx([0.7, *(0.3,) * 5])


@given(gamma=GAMMAS, neighbors=st.integers(2, 12))
def test_the_start_lies_inside_where_every_coefficient_has_a_gradient(gamma: float, neighbors: int) -> None:
    bounds = coefficient_bounds(config(gamma, neighbors), torch.float64)
    start = inside_start(config(gamma, neighbors), torch.float64)
    assert bounds.share_at_bounds(start[None]) == 0
    raw = start.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(bounds.clamp(raw[None]).sum(), raw)
    assert gradient.tolist() == [1] * (neighbors + 1)
    assert start[0].item() == pytest.approx(0.9 * gamma)
    assert start[1].item() == pytest.approx(1.2 * (1 - gamma) / neighbors)


def test_outside_there_is_no_gradient() -> None:
    raw = torch.tensor([[-0.1, 0.1, 0.5]], requires_grad=True)
    (gradient,) = torch.autograd.grad(coefficient_bounds(config(0.6, 2)).clamp(raw).sum(), raw)
    assert gradient.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(("gamma", "neighbors"), [(1.0, 5), (0.3, 1)])
def test_bounds_without_an_inside_are_kept(gamma: float, neighbors: int) -> None:
    bounds, start = coefficient_bounds(config(gamma, neighbors)), inside_start(config(gamma, neighbors))
    assert torch.equal(bounds.clamp(start), start)
    assert start[1:].tolist() == pytest.approx([1 - gamma] * neighbors if neighbors == 1 else [0] * neighbors)
