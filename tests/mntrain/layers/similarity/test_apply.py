"""Convolution with a similarity against the definition, written out with unfolded patches.

Shapes: maps [2, 6, 11, 9], kernel [12, 6/g, k, k], similarities [2, n, H', W'].
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, unfold

from mntrain.layers.similarity.apply import (
    Window,
    diagonal_patches,
    diagonal_product,
    folded_kernel,
    unconstrained_product,
)

WINDOWS = [
    Window(3, 1, 1),
    Window(3, 2, 1),
    Window(3, 1, 0, 2, 2),
    Window(5, 2, 2, 1, 3),
    Window(2),
    Window(3, 2, 2, 2, 6),
]
HEIGHT, WIDTH, CHANNELS, FILTERS = 11, 9, 6, 12


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def by_definition(maps: Tensor, weight: Tensor, matrices: Tensor, window: Window) -> Tensor:
    """y(p) = Σ_ij M_ij(p) w_iᵀ x(p + j), with matrices [B, L, K, K]."""
    count, groups = window.kernel**2, window.groups
    patches = unfold(maps, window.kernel, dilation=window.dilation, padding=window.padding, stride=window.stride)
    patches = patches.unflatten(1, (groups, -1, count))  # [B, g, C/g, K, L]
    filters = weight.flatten(2).unflatten(0, (groups, -1))  # [g, O/g, C/g, K]
    answers = torch.einsum("blij,bgcjl,goci->bgol", matrices, patches, filters).flatten(1, 2)
    return answers.unflatten(2, (window.positions(HEIGHT), window.positions(WIDTH)))


@pytest.fixture(params=WINDOWS, ids=str)
def window(request: pytest.FixtureRequest) -> Window:
    assert isinstance(request.param, Window)
    return request.param


@pytest.fixture
def maps() -> Tensor:
    return drawn(2, CHANNELS, HEIGHT, WIDTH)


@pytest.fixture
def weight(window: Window) -> Tensor:
    return drawn(FILTERS, CHANNELS // window.groups, window.kernel, window.kernel)


def positions(window: Window) -> tuple[int, int]:
    return window.positions(HEIGHT), window.positions(WIDTH)


@pytest.mark.parametrize("product", [diagonal_product, diagonal_patches])
def test_diagonal_similarities_weigh_the_taps(product: object, maps: Tensor, weight: Tensor, window: Window) -> None:
    masks = drawn(2, window.kernel**2, *positions(window))
    expected = by_definition(maps, weight, torch.diag_embed(masks.flatten(2).mT), window)
    assert callable(product)
    torch.testing.assert_close(product(maps, weight, masks, window), expected)


def test_unconstrained_similarities_mix_the_taps(maps: Tensor, weight: Tensor, window: Window) -> None:
    count = window.kernel**2
    numbers = drawn(2, count**2, *positions(window))
    expected = by_definition(maps, weight, numbers.flatten(2).mT.unflatten(2, (count, count)), window)
    torch.testing.assert_close(unconstrained_product(maps, weight, numbers, window), expected)


@pytest.mark.parametrize("diagonal", [True, False])
def test_a_similarity_of_all_positions_folds_into_the_kernel(
    diagonal: bool, maps: Tensor, weight: Tensor, window: Window
) -> None:
    count = window.kernel**2
    similarity = drawn(count) if diagonal else drawn(count, count)
    matrix = torch.diag(similarity) if diagonal else similarity
    length = window.positions(HEIGHT) * window.positions(WIDTH)
    expected = by_definition(maps, weight, matrix.expand(2, length, count, count), window)
    kernel = folded_kernel(weight, similarity)
    torch.testing.assert_close(conv2d(maps, kernel, None, *window[1:]), expected)


def test_gradients_reach_maps_kernel_and_similarity(maps: Tensor, weight: Tensor, window: Window) -> None:
    inputs = [value.requires_grad_() for value in (maps, weight)]
    masks = drawn(2, window.kernel**2, *positions(window)).requires_grad_()
    along = drawn(2, FILTERS, *positions(window))
    found = torch.autograd.grad((diagonal_product(maps, weight, masks, window) * along).sum(), [*inputs, masks])
    written = by_definition(maps, weight, torch.diag_embed(masks.flatten(2).mT), window)
    for gradient, expected in zip(found, torch.autograd.grad((written * along).sum(), [*inputs, masks]), strict=True):
        torch.testing.assert_close(gradient, expected)
