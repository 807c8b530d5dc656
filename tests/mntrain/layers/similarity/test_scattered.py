"""Products that are added up where they belong, against those of shifted maps.

Shapes: maps [2, 6, 11, 9], kernel [10, 6, k, k], masks [2, K, H', W'].
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from mntrain.layers.similarity.apply import Window, diagonal_product
from mntrain.layers.similarity.scattered import scattered_conv, scattered_masks, scattered_product, scatters

WINDOWS = [Window(3, 1, 1), Window(3), Window(3, 1, 2, 2), Window(5, 1, 2), Window(2), Window(2, 1, 1), Window(1)]
FILTERS, CHANNELS, HEIGHT, WIDTH = 10, 6, 11, 9


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.fixture(params=WINDOWS, ids=str)
def window(request: pytest.FixtureRequest) -> Window:
    assert isinstance(request.param, Window)
    assert scatters(request.param)
    return request.param


@pytest.fixture
def maps() -> Tensor:
    return drawn(2, CHANNELS, HEIGHT, WIDTH)


@pytest.fixture
def weight(window: Window) -> Tensor:
    return drawn(FILTERS, CHANNELS, window.kernel, window.kernel)


def test_a_convolution_is_that_of_pytorch(window: Window, maps: Tensor, weight: Tensor) -> None:
    expected = conv2d(maps, weight, None, window.stride, window.padding, window.dilation)
    torch.testing.assert_close(scattered_conv(maps, weight, window), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_masked_products_are_those_of_shifted_maps(window: Window, maps: Tensor, weight: Tensor, parts: int) -> None:
    masks = drawn(2, window.kernel**2, window.positions(HEIGHT), window.positions(WIDTH))
    moved = scattered_masks(masks.flip(1), window)
    assert moved.shape == (2, 1, window.kernel**2, HEIGHT * WIDTH)
    expected = diagonal_product(maps, weight, masks, window)
    torch.testing.assert_close(scattered_product(maps, weight, moved, window, parts), expected, atol=1e-12, rtol=1e-12)


def test_a_bias_of_the_masks_acts_at_the_borders_too(window: Window, maps: Tensor, weight: Tensor) -> None:
    masks = drawn(2, window.kernel**2, window.positions(HEIGHT), window.positions(WIDTH))
    bias = drawn(window.kernel**2)
    moved = scattered_masks(masks.flip(1), window, bias.flip(0))
    expected = diagonal_product(maps, weight, masks + bias[:, None, None], window)
    torch.testing.assert_close(scattered_product(maps, weight, moved, window), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("window", [Window(3, 2, 1), Window(3, 1, 1, 1, 2), Window(3, 1, 3)], ids=str)
def test_other_windows_have_no_such_form(window: Window) -> None:
    assert not scatters(window)
