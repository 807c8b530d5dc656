"""Products over blocks of positions against autograd over the definition.

Shapes: maps [3, 6, 11, 9], kernel [12, 6, k, k], similarities [3, n, H', W'].
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from mntrain.layers.similarity import blocks
from mntrain.layers.similarity.apply import Window, diagonal_product, unconstrained_product
from mntrain.layers.similarity.blocks import predicted_product

WINDOWS = [Window(3, 1, 1), Window(3, 2, 1), Window(3, 1, 0, 2), Window(5, 2, 2), Window(2), Window(3, 2, 2, 2)]
BATCH, HEIGHT, WIDTH, CHANNELS, FILTERS = 3, 11, 9, 6, 12
Inputs = tuple[Tensor, Tensor, Tensor]
Product = Callable[[Tensor, Tensor, Tensor, Window], Tensor]


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def inputs_for(window: Window, kind: str, dtype: torch.dtype = torch.float64) -> Inputs:
    taps = window.kernel**2
    numbers = taps if kind == "diagonal" else taps**2
    tensors = (
        drawn(BATCH, CHANNELS, HEIGHT, WIDTH, dtype=dtype),
        drawn(FILTERS, CHANNELS, window.kernel, window.kernel, dtype=dtype),
        drawn(BATCH, numbers, window.positions(HEIGHT), window.positions(WIDTH), dtype=dtype),
    )
    return tuple(tensor.requires_grad_() for tensor in tensors)  # type: ignore[return-value]


def definition_of(kind: str) -> Product:
    return diagonal_product if kind == "diagonal" else unconstrained_product


@pytest.fixture(params=["diagonal", "unconstrained"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WINDOWS, ids=str)
def window(request: pytest.FixtureRequest) -> Window:
    assert isinstance(request.param, Window)
    return request.param


@pytest.fixture(params=[1, 20_000, 1 << 30], ids=["rows", "images", "whole"])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of a row, of a few images, and of all."""
    monkeypatch.setattr(blocks, "_CPU_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block_bytes")
def test_answers_and_gradients_are_those_of_the_definition(window: Window, kind: str) -> None:
    inputs = inputs_for(window, kind)
    expected = definition_of(kind)(*inputs, window)
    answers = predicted_product(*inputs, window)
    torch.testing.assert_close(answers, expected)
    along = drawn(*answers.shape)
    for found, wanted in zip(
        torch.autograd.grad(answers, inputs, along), torch.autograd.grad(expected, inputs, along), strict=True
    ):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)], ids=str)
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(kind: str, frozen: tuple[int, ...]) -> None:
    window = WINDOWS[0]
    inputs = inputs_for(window, kind)
    wanted = torch.autograd.grad(definition_of(kind)(*inputs, window).square().sum(), inputs)
    for index in frozen:
        inputs[index].requires_grad_(False)
    torch.autograd.backward(predicted_product(*inputs, window).square().sum())
    for index, tensor in enumerate(inputs):
        if index in frozen:
            assert tensor.grad is None
        else:
            torch.testing.assert_close(tensor.grad, wanted[index])


def test_second_derivatives_are_those_of_the_definition(kind: str) -> None:
    window = Window(3, 2, 1)

    def twice(product: Product) -> tuple[Tensor, ...]:
        inputs = inputs_for(window, kind)
        first = torch.autograd.grad(product(*inputs, window).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), inputs)  # type: ignore[arg-type]

    for found, wanted in zip(twice(predicted_product), twice(definition_of(kind)), strict=True):
        torch.testing.assert_close(found, wanted)


@torch.no_grad()
def test_forward_mode_is_that_of_the_definition(kind: str) -> None:
    window = WINDOWS[0]
    inputs = [tensor.detach() for tensor in inputs_for(window, kind)]

    def tangent(product: Product) -> Tensor:
        with forward_ad.dual_level():
            maps, weight, similarity = (
                forward_ad.make_dual(tensor, tensor.cos())  # type: ignore[no-untyped-call]
                for tensor in inputs
            )
            answers = product(maps, weight, similarity, window)
            found: Tensor = forward_ad.unpack_dual(answers).tangent  # type: ignore[no-untyped-call]
        return found

    torch.testing.assert_close(tangent(predicted_product), tangent(definition_of(kind)))


def test_autocast_takes_its_own_dtype(kind: str) -> None:
    window = WINDOWS[0]
    inputs = inputs_for(window, kind, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        answers = predicted_product(*inputs, window)
    assert answers.dtype == torch.bfloat16
    wanted = definition_of(kind)(*inputs, window)
    torch.testing.assert_close(answers.float(), wanted, atol=0.5, rtol=0.05)
    for gradient in torch.autograd.grad(answers.float().sum(), inputs):
        assert gradient.dtype == torch.float32


def test_many_blocks_in_half_precision_add_up_in_single_precision(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    window = WINDOWS[0]
    inputs = inputs_for(window, kind, torch.float32)
    wanted = torch.autograd.grad(definition_of(kind)(*inputs, window).sum(), inputs[1])[0]

    def error() -> float:
        with torch.autocast("cpu", torch.bfloat16):
            answers = predicted_product(*inputs, window)
        found = torch.autograd.grad(answers.sum(), inputs[1])[0]
        return float((found - wanted).norm() / wanted.norm())

    whole = error()
    monkeypatch.setattr(blocks, "_CPU_BYTES", 1)
    assert error() < 1.5 * whole


def test_maps_of_either_layout_and_sliced_ones_are_taken(kind: str) -> None:
    window = WINDOWS[0]
    maps, weight, similarity = (tensor.detach() for tensor in inputs_for(window, kind))
    expected = definition_of(kind)(maps, weight, similarity, window)
    wide = torch.cat([maps, maps], dim=1)[:, :CHANNELS]
    for layout in (torch.channels_last, torch.contiguous_format):
        for of_maps in (maps.contiguous(memory_format=layout), wide):
            found = predicted_product(of_maps, weight, similarity.contiguous(memory_format=layout), window)
            torch.testing.assert_close(found, expected)


def test_nothing_but_the_inputs_is_kept_for_the_gradient(kind: str) -> None:
    inputs = inputs_for(WINDOWS[0], kind)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):  # type: ignore[func-returns-value]
        predicted_product(*inputs, WINDOWS[0])
    assert sum(tensor.numel() for tensor in kept) == sum(tensor.numel() for tensor in inputs)


def test_an_empty_batch_gives_empty_answers(kind: str) -> None:
    maps, weight, similarity = inputs_for(WINDOWS[0], kind)
    assert predicted_product(maps[:0], weight, similarity[:0], WINDOWS[0]).shape == (0, FILTERS, HEIGHT, WIDTH)
