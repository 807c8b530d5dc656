"""Predictors of similarities against their sums written out position by position.

Shapes: maps [C, 5, 5], hidden maps [h, 5, 5], numbers [n] of one position.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from mntrain.layers.similarity.apply import Window
from mntrain.layers.similarity.config import Kind, SimilarityConfig
from mntrain.layers.similarity.predictor import SimilarityPredictor

Array = NDArray[np.float64]
GENERATOR = torch.Generator().manual_seed(0)
MAPS = torch.randn(1, 2, 5, 5, generator=GENERATOR, dtype=torch.float64)


def predictor(kind: Kind, *, sphere: bool, residual: bool) -> SimilarityPredictor:
    """A predictor off its start, in evaluation."""
    config = SimilarityConfig(
        mode="dynamic", kind=kind, hidden=4, predictor="sphere" if sphere else "plain", residual=residual
    )
    built = SimilarityPredictor(2, Window(3, padding=1), config, GENERATOR).double().eval()
    with torch.no_grad():
        for value in (*built.parameters(), *(one for one in built.buffers() if one.is_floating_point())):
            value.add_(torch.rand(value.shape, generator=GENERATOR, dtype=torch.float64))
    return built


def patch(maps: Array, row: int, column: int) -> Array:
    return np.pad(maps, ((0, 0), (1, 1), (1, 1)))[:, row : row + 3, column : column + 3]


def normalised(values: Array, norm: nn.Module) -> Array:
    """Batch normalisation by its running statistics, channel by channel."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean, variance = norm.running_mean.numpy(), norm.running_var.numpy()
    factor, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    return np.asarray((values - mean) / np.sqrt(variance + 1e-3) * factor + shift)


def written_out(built: SimilarityPredictor, *, sphere: bool, residual: bool, row: int, column: int) -> Array:
    maps, first, second = MAPS[0].numpy(), built.first.detach().numpy(), built.second.detach().numpy()
    hidden = np.zeros((4, 5, 5))
    for y in range(5):
        for x in range(5):
            seen = patch(maps, y, x)
            answers = np.array([(kernel * seen).sum() for kernel in first])
            if sphere:
                answers /= np.sqrt((seen**2).sum() + 1e-4)
            hidden[:, y, x] = np.maximum(normalised(answers, built.norms[0]) if built.diagonal else answers, 0)
    numbers = np.array([(kernel * patch(hidden, row, column)).sum() for kernel in second])
    if built.diagonal:
        numbers = normalised(numbers, built.norms[1])
    if not residual:
        return numbers
    return numbers + (1 if built.diagonal else np.eye(9).reshape(-1))


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("sphere", [True, False])
@pytest.mark.parametrize("kind", ["diagonal", "unconstrained"])
def test_a_similarity_is_what_the_two_convolutions_say_of_the_patch(kind: Kind, sphere: bool, residual: bool) -> None:
    """Diagonal ones are normalised twice, and unconstrained ones never; the identity is added behind it."""
    built = predictor(kind, sphere=sphere, residual=residual)
    with torch.inference_mode():
        found = built(MAPS)[0].numpy()
    for row, column in ((0, 0), (2, 3), (4, 4)):
        expected = written_out(built, sphere=sphere, residual=residual, row=row, column=column)
        np.testing.assert_allclose(found[:, row, column], expected, rtol=1e-9, atol=1e-9)
