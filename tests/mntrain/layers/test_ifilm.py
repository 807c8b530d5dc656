"""iFiLM: starts as the identity, adapts each row by itself, and pooling first equals pooling after normalisation."""

import pytest
import torch
from torch import nn

from mntrain.layers.ifilm import IFiLM
from mntrain.layers.norm import ifilm_norm


def trained(channels: int = 6, entries: int = 4) -> IFiLM:
    torch.manual_seed(0)
    layer = IFiLM(channels, entries).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


def test_ifilm_starts_as_the_identity() -> None:
    maps = torch.randn(3, 6, 5, 4)
    torch.testing.assert_close(IFiLM(6)(maps), maps)


def test_ifilm_is_the_attention_weighted_affine_of_the_paper() -> None:
    layer, maps = trained(), torch.randn(3, 6, 5, 4, dtype=torch.float64)
    found = layer(maps)
    for i in range(3):
        pooled = maps[i].mean(dim=(1, 2))
        scores = torch.stack([torch.cosine_similarity(pooled, key, dim=0) for key in layer.keys]) / layer.temperature
        weights = scores.softmax(0)
        factor = 1 + sum(w * scale for w, scale in zip(weights, layer.scales, strict=True))
        shift = sum(w * shift for w, shift in zip(weights, layer.shifts, strict=True))
        expected = factor[:, None, None] * maps[i] + shift[:, None, None]
        torch.testing.assert_close(found[i], expected, atol=1e-12, rtol=0)


def test_a_row_does_not_depend_on_its_batch_mates() -> None:
    layer, maps = trained(), torch.randn(4, 6, 5, 4, dtype=torch.float64)
    alone = torch.cat([layer(maps[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(alone, layer(maps), atol=1e-12, rtol=0)


@pytest.mark.parametrize("entries", [1, 10])
def test_every_parameter_learns(entries: int) -> None:
    layer = trained(entries=entries)
    layer(torch.randn(4, 6, 5, 4, dtype=torch.float64)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None
        # With a single entry the attention is 1 whatever its key says.
        assert bool((parameter.grad != 0).any()) == (entries > 1 or name != "keys")


def test_the_normalisation_keeps_its_own_affine() -> None:
    norm = ifilm_norm(10)(6)
    assert isinstance(norm, nn.Sequential)
    batch_norm = norm[0]
    assert isinstance(batch_norm, nn.BatchNorm2d)
    assert batch_norm.affine
    assert batch_norm.eps == 1e-3
