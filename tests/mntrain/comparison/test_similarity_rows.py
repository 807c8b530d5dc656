"""Rows of Neural Similarity Learning: each trains, and the plain ones are as wide as their names promise."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mntrain.backbones.config import BackboneConfig, build_backbone, feature_count
from mntrain.comparison.plan import CompareOptions, plan_runs
from mntrain.comparison.similarity_rows import SIMILARITY_ROWS
from mntrain.comparison.variants import BUILT_IN, Variant
from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.models.base import Batch
from mntrain.models.build import build_model
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.training.optimizer import build_optimizer

ROWS = [row.name for row in SIMILARITY_ROWS]
NETWORKS = [name for name in ROWS if name.startswith(("static", "dynamic"))]
DNS = "dynamic-dns"


def backbone_of(row: str, recipe: str = "cifar10-cnn9", width: float | None = None) -> BackboneConfig:
    words = () if width is None else ("--backbone.width", str(width))
    return load_experiment(recipe, (*BUILT_IN[row].words, *words)).backbone


@cache
def parameters(config: BackboneConfig, shape: tuple[int, int, int] = (3, 32, 32), classes: int = 10) -> int:
    """Count those of a backbone and a linear classifier with bias."""
    with torch.device("meta"):
        backbone = build_backbone(config, shape)
    return sum(parameter.numel() for parameter in backbone.parameters()) + (feature_count(backbone) + 1) * classes


@cache
def multiplications(config: BackboneConfig) -> int:
    """Count those of kernels, predictors and masks (one for each number of every patch) for an image of 32×32."""
    total = 0

    def count(layer: nn.Module, _inputs: Any, answers: Tensor) -> None:
        nonlocal total
        positions = answers.shape[2:].numel()
        weights = [parameter for name, parameter in layer.named_parameters() if parameter.dim() in (2, 4)]
        total += positions * sum(weight.numel() for weight in weights)
        if getattr(layer, "predictor", None) is not None:
            assert isinstance(layer, nn.Conv2d)
            total += positions * layer.in_channels * 9

    backbone = build_backbone(config, (3, 32, 32)).eval()
    for module in backbone.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(count)
    with torch.no_grad():
        backbone(torch.zeros(1, 3, 32, 32))
    return total


@pytest.mark.parametrize("row", ROWS)
def test_every_row_trains_on_cnn9_with_a_dot_head(row: str) -> None:
    words = [*BUILT_IN[row].words, "--backbone.width", "0.1"]
    if row.startswith("dynamic"):
        words += ["--backbone.similarity.hidden", "4"]
    config = load_experiment("cifar10-cnn9", words)
    assert (config.family, config.backbone.name) == ("vanilla", "cnn9")
    assert isinstance(config.model, VanillaConfig)
    assert config.model.head == "dot"
    torch.manual_seed(0)
    model = build_model(config, (3, 16, 16), 3)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = build_optimizer(model.parameter_groups(), config.training)
    loss, _ = model.loss(Batch(torch.randn(8, 3, 16, 16), torch.arange(8) % 3))
    loss.backward()
    optimizer.step()
    after = dict(model.named_parameters())
    assert all(bool(value.isfinite().all()) for value in after.values())
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    # The plain network moves, and what a row has beyond it.
    plain = dict(build_model(load_experiment("cifar10-cnn9"), (3, 16, 16), 3).named_parameters()).keys()
    assert any(name.startswith("backbone") and name.endswith("weight") for name in moved & plain)
    assert (moved - plain) or not (after.keys() - plain)


@pytest.mark.parametrize("classes", [10, 100])
def test_cnn_plus_plus_has_just_more_parameters_than_every_network_with_similarity(classes: int) -> None:
    most = max(parameters(backbone_of(row), classes=classes) for row in NETWORKS)
    assert parameters(backbone_of("cnn++"), classes=classes) > most
    assert parameters(backbone_of("cnn++", width=1.53), classes=classes) < most


def test_cnn10_plus_plus_has_just_more_parameters_than_dynamic_dns() -> None:
    of_cnn10 = {
        width: parameters(backbone_of(row, "imagenet-cnn10", width), (3, 224, 224), 1000)
        for row, width in (("cnn10++", None), (DNS, 1.0), ("cnn10++", 1.041))
    }
    assert of_cnn10[1.041] < of_cnn10[1.0] <= of_cnn10[None] < 1.01 * of_cnn10[1.0]


@pytest.mark.parametrize(
    ("row", "count"), [("cnn-equal-parameters", parameters), ("cnn-equal-operations", multiplications)]
)
def test_plain_rows_cost_as_much_as_dynamic_dns(row: str, count: Any) -> None:
    width = backbone_of(row).width
    assert count(backbone_of(row, width=round(width - 0.01, 2))) < count(backbone_of(DNS)) <= count(backbone_of(row))


def test_dynamic_dns_multiplies_by_hand_2_33_times_as_often() -> None:
    sides, widths = (32, 32, 32, 16, 16, 16, 8, 8, 8), (3, 32, 32, 32, 64, 64, 64, 128, 128, 128)
    layers = list(zip(sides, widths[:-1], widths[1:], strict=True))
    plain = sum(side**2 * 9 * before * after for side, before, after in layers) + 2048 * 256
    predicted = sum(side**2 * 9 * (64 * before + 64 * 9 + before) for side, before, _ in layers[1:])
    assert multiplications(backbone_of("cnn")) == plain
    assert multiplications(backbone_of(DNS)) == plain + predicted
    assert round((plain + predicted) / plain, 2) == 2.33


def test_rows_that_need_poolings_say_so_on_other_backbones() -> None:
    with pytest.raises(ConfigError, match="across_map is 'attention', which stands behind poolings"):
        load_experiment("digits", BUILT_IN["attention"].words)


@pytest.mark.parametrize("row", ["cnn++", "cnn-equal-time"])
def test_rows_of_a_counted_width_are_refused_beside_others_than_full_networks(row: str) -> None:
    narrow = ("--backbone.width", "0.5")
    rows = (BUILT_IN["cnn"], BUILT_IN[row])
    with pytest.raises(ConfigError, match=f"Variant '{re.escape(row)}': it is .* times as wide .* is 0.5 here"):
        plan_runs(CompareOptions(recipe="cifar10-cnn9", variants=rows, baseline="cnn", overrides=narrow))
    own = Variant(name=row, words=("--family", "vanilla", "--backbone.width", "0.7"))
    options = CompareOptions(
        recipe="cifar10-cnn9", variants=(BUILT_IN["cnn"], own), baseline="cnn", overrides=narrow, seeds=(0,)
    )
    assert [run.config.backbone.width for run in plan_runs(options)] == [0.5, 0.7]
    whole = CompareOptions(recipe="cifar10-cnn9", variants=rows, baseline="cnn", seeds=(0,))
    assert next(run.config.backbone.width for run in plan_runs(whole)) == 1
