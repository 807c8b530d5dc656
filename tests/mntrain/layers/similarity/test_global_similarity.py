"""Similarity across whole maps against the sums of equations 10 and 11."""

from __future__ import annotations

import pytest
import torch

from mntrain.layers.similarity.config import GlobalMode
from mntrain.layers.similarity.global_similarity import GlobalSimilarity

MAPS = torch.randn(2, 16, 3, 4, generator=torch.Generator().manual_seed(0))


def layer(mode: GlobalMode) -> GlobalSimilarity:
    return GlobalSimilarity(16, 12, mode, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("mode", ["static", "dynamic", "attention"])
def test_a_layer_starts_as_the_identity(mode: GlobalMode) -> None:
    torch.testing.assert_close(layer(mode)(MAPS), MAPS, atol=0, rtol=0)


@pytest.mark.parametrize("mode", ["dynamic", "attention"])
def test_positions_are_mixed_by_products_of_their_directions(mode: GlobalMode) -> None:
    module = layer(mode)
    assert module.gate is not None
    assert module.pair is not None
    torch.nn.init.constant_(module.gate, 0.5)
    positions = MAPS[1].flatten(1).T  # [m, c]
    first, second = (torch.nn.functional.normalize(positions @ part.T, dim=1) for part in module.pair)
    similarity = torch.stack([torch.stack([row @ other for other in second]) for row in first])
    similarity = torch.softmax(similarity, dim=1) if mode == "attention" else similarity / 12
    expected = positions + 0.5 * similarity @ positions
    torch.testing.assert_close(module(MAPS)[1].flatten(1).T, expected)


def test_a_static_similarity_is_the_same_for_every_image_and_channel() -> None:
    module = layer("static")
    assert module.similarity is not None
    torch.nn.init.normal_(module.similarity)
    expected = MAPS.flatten(2) + torch.einsum("pq,bcq->bcp", module.similarity, MAPS.flatten(2))
    torch.testing.assert_close(module(MAPS).flatten(2), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["dynamic", "attention"])
def test_positions_of_zeros_have_answers_in_16_bits(mode: GlobalMode, dtype: torch.dtype) -> None:
    module = layer(mode)
    assert module.gate is not None
    torch.nn.init.constant_(module.gate, 0.5)
    maps = MAPS.clone()
    maps[:, :, 1] = 0  # as behind ReLU
    answers = module.to(dtype)(maps.to(dtype))
    assert answers.dtype == dtype
    torch.testing.assert_close(answers.float(), module.float()(maps), atol=0.05, rtol=0.02)
