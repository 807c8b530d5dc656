"""Figures of a phase: read late, the same as read at once."""

import math

import pytest
import torch

from mntrain.training.reporting import DivergedStep, PartFigures, PhaseFigures, means


def part(loss: float, score: float = 1.0, examples: int = 2) -> PartFigures:
    return PartFigures(torch.tensor(loss), torch.tensor(score), examples)


def test_figures_read_late_are_bit_for_bit_those_read_at_every_step() -> None:
    torch.manual_seed(0)
    steps = [[part(loss, score, 3) for loss, score in torch.rand(2, 2).tolist()] for _ in range(50)]
    late, often = PhaseFigures(), PhaseFigures()
    for step in steps:
        late.add_step(step)
        often.add_step(step)
        assert often.read() is None
    assert late.read() is None
    losses = [figures.loss.double() * figures.examples for step in steps for figures in step]
    assert torch.equal(late.sums, often.sums)
    assert means(late.sums)[0] == pytest.approx(float(sum(losses)) / 300, rel=1e-12)
    assert late.sums[2] == 300


def test_nothing_is_read_before_it_is_asked_for() -> None:
    figures = PhaseFigures()
    figures.add_step([part(1.0)])
    assert figures.sums.tolist() == [0, 0, 0]
    assert figures.read() is None
    assert figures.sums.tolist() == [2, 1, 2]
    assert figures.read() is None
    assert figures.sums.tolist() == [2, 1, 2], "nothing counts twice"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_first_step_whose_loss_is_not_finite_is_named(bad: float) -> None:
    figures = PhaseFigures()
    figures.add_step([part(1.0)])
    assert figures.read() is None
    figures.add_step([part(3.0), part(bad)])
    figures.add_step([part(math.nan)])
    diverged = figures.read()
    assert isinstance(diverged, DivergedStep)
    assert diverged.step == 2
    assert math.isnan(diverged.loss) if math.isnan(bad) else diverged.loss == bad
