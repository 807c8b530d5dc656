"""Convolutions with a similarity: how they start, what is counted, and how weights of an ordinary network fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.errors import ConfigError
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.conv import SimilarityConv
from mntrain.layers.similarity.plain import plain_twin

LEARNED: dict[str, dict[str, Any]] = {
    "static": {"mode": "static"},
    "static-unconstrained": {"mode": "static", "kind": "unconstrained"},
    "static-shape": {"mode": "static", "kernel_shape": True},
    "dynamic": {"mode": "dynamic"},
    "dynamic-unconstrained": {"mode": "dynamic", "kind": "unconstrained"},
    "dynamic-shared": {"mode": "dynamic", "shared": True},
    "dynamic-plain": {"mode": "dynamic", "predictor": "plain"},
    "across-static": {"across_map": "static"},
    "across-dynamic": {"across_map": "dynamic"},
    "attention": {"across_map": "attention"},
}
IMAGES = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def network(name: str = "cnn9", ifilm: bool = False, **settings: Any) -> nn.Module:
    torch.manual_seed(1)
    config = BackboneConfig(name=name, width=0.5, ifilm=ifilm, similarity=SimilarityConfig(**settings))
    return build_backbone(config, (3, 32, 32))


@pytest.mark.parametrize("settings", LEARNED.values(), ids=LEARNED)
def test_a_network_with_similarity_starts_as_the_ordinary_one_of_the_same_seed(settings: dict[str, Any]) -> None:
    ordinary, similar = network().eval(), network(**settings).eval()
    weights = similar.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in ordinary.state_dict().items())
    with torch.inference_mode():
        expected = ordinary(IMAGES)
        torch.testing.assert_close(similar(IMAGES), expected, atol=1e-6 * float(expected.abs().max()), rtol=0)


@pytest.mark.parametrize("settings", [*LEARNED.values(), {"mode": "sphere"}], ids=[*LEARNED, "sphere"])
def test_weights_of_an_ordinary_network_fit_and_come_out_as_they_went_in(settings: dict[str, Any]) -> None:
    ordinary = network()
    for parameter in ordinary.parameters():
        nn.init.normal_(parameter)
    similar = network(**settings)
    left = similar.load_state_dict(ordinary.state_dict(), strict=False)
    assert not left.unexpected_keys
    twin = plain_twin(similar).eval()
    with torch.inference_mode():
        torch.testing.assert_close(twin(IMAGES), ordinary.eval()(IMAGES), atol=0, rtol=0)
    assert not [layer for layer in twin.modules() if isinstance(layer, SimilarityConv)]


def test_an_ordinary_network_is_its_own_twin() -> None:
    ordinary = network()
    assert plain_twin(ordinary) is ordinary


def count(name: str, shape: tuple[int, int, int], classes: int, **settings: Any) -> int:
    """Parameters of a backbone and a linear classifier with bias."""
    config = BackboneConfig(name=name, similarity=SimilarityConfig(**settings))
    with torch.device("meta"):
        backbone = build_backbone(config, shape)
    features = backbone.features
    assert isinstance(features, int)
    return sum(parameter.numel() for parameter in backbone.parameters()) + (features + 1) * classes


def test_cnn10_has_the_parameters_of_table_5() -> None:
    """8.90 M plain and 9.61 M with dynamic DNS, counted by hand."""
    kernels = 7 * 7 * 3 * 64 + 9 * (3 * 64 * 64 + 64 * 128 + 2 * 128 * 128 + 128 * 256 + 2 * 256 * 256)
    norms = 2 * (64 + 3 * 64 + 3 * 128 + 3 * 256)
    connected = 256 * 7 * 7 * 512 + 2 * 512 + 512 * 1000 + 1000
    plain = kernels + norms + connected
    assert count("cnn10", (3, 224, 224), 1000) == plain
    assert round(plain / 1e6, 2) == 8.90
    inputs = [64] * 4 + [128] * 3 + [256] * 2
    predictors = sum(9 * channels * 64 + 2 * 64 + 9 * 64 * 9 + 2 * 9 for channels in inputs)
    assert count("cnn10", (3, 224, 224), 1000, mode="dynamic") == plain + predictors
    assert round((plain + predictors) / 1e6, 2) == 9.61


def test_static_similarities_add_k2_or_k4_numbers_a_layer() -> None:
    plain = count("cnn9", (3, 32, 32), 10)
    assert count("cnn9", (3, 32, 32), 10, mode="static") == plain + 8 * 9
    assert count("cnn9", (3, 32, 32), 10, mode="static", kind="unconstrained") == plain + 8 * 81
    assert count("cnn9", (3, 32, 32), 10, mode="static", kernel_shape=True) == plain + 8 * 18


def test_layers_of_a_shared_predictor_have_one_and_list_it_once() -> None:
    shared = network(mode="dynamic", shared=True)
    names = [name for name, _ in shared.named_parameters() if "predictor" in name]
    assert len([name for name in names if name.endswith("own.first")]) == 1
    assert len([name for name in names if name.endswith("adaptation")]) == 8
    assert len(names) == len({id(parameter) for name, parameter in shared.named_parameters() if "predictor" in name})


def test_layers_of_a_shared_predictor_are_normalised_by_statistics_of_their_own() -> None:
    """In evaluation the network answers as it was trained; statistics of all layers together would fit none."""
    shared = network("cnn4", mode="dynamic", shared=True, hidden=8)
    images = torch.cat([IMAGES, 3 * IMAGES.roll(5, dims=3) + 1])
    with torch.no_grad():
        for layer in shared.modules():
            if isinstance(layer, nn.BatchNorm2d):
                nn.init.ones_(layer.weight)
        for _ in range(80):
            trained = shared(images)
        evaluated = shared.eval()(images)
    assert (evaluated - trained).norm() < 0.05 * trained.norm()


def test_without_the_residual_an_unconstrained_similarity_is_what_is_predicted() -> None:
    similar = network(mode="dynamic", kind="unconstrained", residual=False)
    layer = next(layer for layer in similar.modules() if isinstance(layer, SimilarityConv))
    assert layer.predictor is not None
    numbers = layer.predictor(torch.zeros(1, layer.in_channels, 6, 6))
    torch.testing.assert_close(numbers, torch.zeros_like(numbers))


@pytest.mark.parametrize("name", ["mlp", "identity"])
def test_a_backbone_without_convolutions_has_no_similarity(name: str) -> None:
    with pytest.raises(ConfigError, match="has no convolutions; leave it out, or choose from"):
        BackboneConfig(name=name, similarity=SimilarityConfig(mode="static"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"measure": "linear"}, "set backbone.similarity.normalise to both"),
        ({"hidden": 5000}, "hidden is 5000"),
        ({"second_kernel": 2}, "second_kernel is 2"),
        ({"mode": "sphere", "kernel_shape": True}, "set mode to static or dynamic"),
        ({"mode": "static", "kernel_shape": True, "shape_threshold": 1.0}, "must be below 1"),
        ({"mode": "static", "shape_keep": 3}, "set backbone.similarity.kernel_shape to true"),
        ({"mode": "static", "kernel_shape": True, "shape_penalty": -1.0}, "must not be negative"),
        ({"orthogonality": float("nan")}, "must be a finite number"),
        ({"kind": "unconstrained"}, "acts on nothing here: .*set backbone.similarity.mode to static or dynamic"),
        ({"mode": "sphere", "kind": "unconstrained"}, "kind is 'unconstrained', which acts on nothing here"),
        ({"mode": "static", "hidden": 7}, "hidden is 7, .*set backbone.similarity.mode to dynamic"),
        ({"mode": "static", "residual": False}, "residual is False, which acts on nothing here"),
        ({"mode": "static", "shared": True}, "shared is True, which acts on nothing here"),
        ({"mode": "static", "normalise": "both"}, "set backbone.similarity.mode to sphere, or dynamic"),
        ({"mode": "dynamic", "predictor": "plain", "orthogonality": 1.0}, "orthogonality is 1.0, which acts on"),
        ({"mode": "dynamic", "shape_threshold": 0.2}, "set backbone.similarity.kernel_shape to true"),
    ],
)
def test_settings_that_cannot_be_are_told_with_the_way_out(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SimilarityConfig(**settings)


def test_no_more_taps_can_be_kept_than_a_kernel_has() -> None:
    with pytest.raises(ConfigError, match="shape_keep is 10, but a kernel has 9 taps here; give at most 9"):
        network(mode="static", kernel_shape=True, shape_keep=10)
    network(mode="static", kernel_shape=True, shape_keep=9)
