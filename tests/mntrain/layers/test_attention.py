"""Distances to keys keep their precision wherever features lie.

Shapes: B queries, S entries, d features.
"""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor

from mntrain.layers.attention import KeyIndex, attention, comparable_similarity, key_index, similarity

BATCH, ENTRIES, FEATURES, TEMPERATURE = 128, 64, 64, 0.2
OFFSETS = (0.0, 10.0, 100.0, -1000.0)
Distance = Literal["euclidean", "distance"]
KINDS: tuple[Distance, ...] = ("euclidean", "distance")


def queries_and_keys(offset: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(rows, FEATURES, generator=generator) * 0.3 + offset for rows in (BATCH, ENTRIES)]
    return draw[0], draw[1]


def expected(features: Tensor, keys: Tensor, kind: Distance) -> Tensor:
    """Attention in float64, without any expansion."""
    apart = torch.cdist(features.double(), keys.double(), compute_mode="donot_use_mm_for_euclid_dist")
    return (-apart.pow(2 if kind == "euclidean" else 1) / TEMPERATURE).softmax(-1)


def found(features: Tensor, keys: Tensor, kind: Distance) -> Tensor:
    return attention(similarity(features, key_index(keys, kind)), TEMPERATURE)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_as_precise_at_every_offset(kind: Distance, offset: float) -> None:
    features, keys = queries_and_keys(offset)
    error = (found(features, keys, kind).double() - expected(features, keys, kind)).abs().max()
    assert error <= 5e-6


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_as_precise_at_every_offset(kind: Distance, offset: float) -> None:
    features, keys = queries_and_keys(offset)
    direction = torch.randn(BATCH, ENTRIES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def gradients(of: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((of.double() * direction).sum(), leaves)

    single = (features.clone().requires_grad_(), keys.clone().requires_grad_())
    double = (features.double().requires_grad_(), keys.double().requires_grad_())
    for got, wanted in zip(
        gradients(found(*single, kind), *single), gradients(expected(*double, kind), *double), strict=True
    ):
        assert (got.double() - wanted).abs().max() <= 2e-5 * wanted.abs().max()


def test_squares_taken_from_the_origin_lose_the_classes_of_neighbors() -> None:
    """Proves that the tests above can fail: this is the expansion without a center."""
    for offset, least in ((10.0, 5e-3), (100.0, 0.1)):
        features, keys = queries_and_keys(offset)
        origin = KeyIndex(2 * keys, -keys.square().sum(dim=-1), None, torch.zeros(FEATURES))
        wrong = attention(similarity(features, origin), TEMPERATURE)
        right = expected(features, keys, "euclidean")
        assert (wrong.double() - right).abs().max() > least
    assert (wrong.argmax(-1) != right.argmax(-1)).sum() > BATCH // 20


@pytest.mark.parametrize("kind", KINDS)
def test_queries_of_an_entry_are_ordered_far_from_the_origin(kind: Distance) -> None:
    features, keys = queries_and_keys(100.0)
    apart = torch.cdist(features.double(), keys.double(), compute_mode="donot_use_mm_for_euclid_dist")
    scores = comparable_similarity(features, key_index(keys[:7], kind))
    torch.testing.assert_close(scores.double(), -apart[:, :7].pow(2 if kind == "euclidean" else 1), atol=2e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_some_of_the_keys_have_another_center_and_the_same_attention(kind: Distance) -> None:
    """Dropout hands over a part of the keys, whose mean is another one."""
    features, keys = (item.double() for item in queries_and_keys(10.0))
    whole = similarity(features, key_index(keys, kind))[:, 40:]
    part = similarity(features, key_index(keys[40:], kind))
    torch.testing.assert_close(attention(part, 0.2), attention(whole, 0.2), atol=1e-12, rtol=0)
