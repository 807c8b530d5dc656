"""Layers of two processes with unequal shares compute what one process computes for the whole batch.

Shapes: maps [B, C, H, W].
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mntrain.distributed
from mntrain.distributed import global_rows, process_rank, uniform_rows
from mntrain.layers.dropout import dropout
from mntrain.layers.norm import batch_norm
from mntrain.models.meta_neighborhoods.dictionary import EntryDropout

ROWS = 7
Both = Callable[[Callable[[], Any]], list[Any]]


@pytest.fixture
def in_both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """Runs a function in two threads that stand for processes; sums over processes are exchanged between them."""
    place, meeting, values = threading.local(), threading.Barrier(2, timeout=20), [torch.empty(0)] * 2

    def all_reduce(tensor: Tensor) -> None:
        values[place.rank] = tensor.clone()
        meeting.wait()
        total = values[0] + values[1]
        meeting.wait()
        tensor.copy_(total)

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: hasattr(place, "rank"))
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: place.rank)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(mntrain.distributed, "all_reduce", all_reduce)

    def run(function: Callable[[], Any]) -> list[Any]:
        def as_process(rank: int) -> Any:
            place.rank = rank
            with global_rows(ROWS):
                return function()

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(as_process, range(2)))

    return run


def test_statistics_of_a_batch_weigh_every_example_alike(in_both: Both) -> None:
    torch.manual_seed(0)
    maps = torch.randn(ROWS, 3, 2, 2, dtype=torch.float64) * 3 + torch.arange(ROWS)[:, None, None, None]
    direction = torch.randn_like(maps)

    def through() -> tuple[nn.Module, Tensor, Tensor]:
        layer = batch_norm(3).double().train()
        own = process_rank().rows(maps).clone().requires_grad_()
        out = layer(own)
        (out * process_rank().rows(direction)).sum().backward()
        assert own.grad is not None
        return layer, out.detach(), own.grad

    whole, expected, gradient = through()
    shares = in_both(through)
    assert [len(out) for _, out, _ in shares] == [4, 3]
    for rank, (layer, out, own) in enumerate(shares):
        torch.testing.assert_close(out, expected[rank::2], atol=1e-12, rtol=0)
        torch.testing.assert_close(own, gradient[rank::2], atol=1e-12, rtol=0)
        for name, value in whole.named_buffers():
            torch.testing.assert_close(dict(layer.named_buffers())[name], value, atol=1e-12, rtol=0)


def drawn() -> list[Tensor]:
    """Draws of every kind, one after another: a draw that takes too many numbers spoils those behind it."""
    # Threads share the global generator, so each takes its turn and begins alike.
    with _TURN:
        torch.manual_seed(5)
        rows = len(process_rank().rows(torch.empty(ROWS)))
        entries = EntryDropout(share=0.5, mode="per_sample")
        found = [dropout(torch.ones(rows, 2, 2, 2), 0.4, training=True), uniform_rows(rows, 3, torch.device("cpu"))]
        entries.seed(3)
        masks = [entries.draw(rows, 9, torch.device("cpu")).mask for _ in range(2)]
        return [*found, *(mask for mask in masks if mask is not None)]


_TURN = threading.Lock()


def test_every_example_draws_what_it_would_draw_in_one_process(in_both: Both) -> None:
    whole = drawn()
    assert len(whole) == 4
    for rank, share in enumerate(in_both(drawn)):
        for own, expected in zip(share, whole, strict=True):
            assert torch.equal(own, expected[rank::2])
