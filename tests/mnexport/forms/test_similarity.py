"""Static forms of convolutions with similarity: folded ones are the plain network's graph, predicted ones stay exact.

Shapes: images [B, 3, 16, 16], features [B, d].
"""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

from mnexport.errors import FormError
from mnexport.forms.base import DeployedClassifier
from mnexport.forms.heads import static_head
from mnexport.forms.layers import static_layers
from mnexport.forms.similarity_report import similarity_report
from mnexport.graph import write_onnx
from mnexport.signature import image_signature
from mntrain.artifact_config import InputSpec
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.data.preprocessing import Preprocessing, PreprocessingConfig
from mntrain.layers.heads import build_head
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.layers.similarity.conv import SimilarityConv
from mntrain.layers.similarity.shape import KernelShape

SHAPE = (3, 16, 16)
STATIC: dict[str, dict[str, Any]] = {
    "diagonal": {},
    "unconstrained": {"kind": "unconstrained"},
    "shape": {"kernel_shape": True, "shape_keep": 4},
}
DYNAMIC: dict[str, dict[str, Any]] = {
    "diagonal": {"mode": "dynamic", "hidden": 5},
    "unconstrained": {"mode": "dynamic", "hidden": 5, "kind": "unconstrained", "kernel_shape": True},
    "shared": {"mode": "dynamic", "hidden": 5, "shared": True, "second_kernel": 1},
    "plain": {"mode": "dynamic", "hidden": 5, "predictor": "plain"},
    "angles": {"mode": "dynamic", "hidden": 5, "normalise": "both", "measure": "linear"},
    "sphere": {"mode": "sphere", "normalise": "both", "measure": "sigmoid"},
    "attention": {"across_map": "attention"},
    "static-map": {"across_map": "static"},
}


def trained(name: str = "cnn4", **settings: Any) -> nn.Module:
    """A backbone whose weights and statistics are off their start."""
    torch.manual_seed(0)
    network = build_backbone(BackboneConfig(name=name, width=0.25, similarity=SimilarityConfig(**settings)), SHAPE)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        for _ in range(3):
            network.train()(torch.randn(8, *SHAPE))
    return network.double().eval()


def folded(network: nn.Module) -> nn.Module:
    static = copy.deepcopy(network)
    static_layers(static)
    return static.eval()


@pytest.mark.parametrize("settings", DYNAMIC.values(), ids=DYNAMIC)
@pytest.mark.parametrize("name", ["cnn4", "resnet29"])
def test_a_static_form_answers_as_the_trained_network(name: str, settings: dict[str, Any]) -> None:
    if "across_map" in settings and name != "cnn4":
        pytest.skip("similarity across maps stands behind the poolings of plain networks")
    network = trained(name, **settings)
    images = torch.randn(5, *SHAPE, dtype=torch.float64)
    with torch.inference_mode():
        torch.testing.assert_close(folded(network)(images), network(images), atol=1e-9, rtol=1e-9)


def operators(network: nn.Module, path: Path) -> Counter[str]:
    classifier = static_head(build_head("dot", network.features, 4, 10.0))  # type: ignore[arg-type]
    module = DeployedClassifier(Preprocessing(PreprocessingConfig.identity(3)), network.float(), classifier)
    write_onnx(module, image_signature(InputSpec(channels=3, height=16, width=16), tuple("abcd")), 20, {}, path)
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("settings", STATIC.values(), ids=STATIC)
def test_a_static_similarity_leaves_the_plain_graph(settings: dict[str, Any], tmp_path: Path) -> None:
    network = trained(mode="static", **settings)
    images = torch.randn(5, *SHAPE, dtype=torch.float64)
    with torch.inference_mode():
        torch.testing.assert_close(folded(network)(images), network(images), atol=1e-12, rtol=1e-12)
    assert operators(network, tmp_path / "m.onnx") == operators(trained(), tmp_path / "plain.onnx")


def test_a_kernel_without_taps_is_refused_with_the_settings_that_led_there() -> None:
    network = trained(mode="static", kernel_shape=True)
    shape = next(layer for layer in network.modules() if isinstance(layer, KernelShape))
    nn.init.zeros_(shape.scores)
    with pytest.raises(FormError, match=r"shape D is all zero.*shape_threshold or shape_penalty"):
        folded(network)


def test_the_report_counts_forms_and_operations() -> None:
    network = trained(mode="dynamic", hidden=5).float()
    report = similarity_report(network, folded(network), SHAPE)
    assert report is not None
    # Answers of 8×8, 4×4 and 2×2: all small.
    assert (report.folded, report.forms) == (0, {"patches": 3})
    plain = 2 * (3 * 8 * 9 * 16**2 + 8 * 8 * 9 * (8**2 + 4**2 + 2**2))
    sides = 8**2 + 4**2 + 2**2
    predictors = 2 * sides * (8 * 5 * 9 + 5 * 9 * 9 + 9)  # the last of the norms of patches
    assert report.operations == plain + predictors
    assert report.operations_over_plain == round(report.operations / plain, 3)


def test_static_layers_are_counted_as_folded_and_cost_nothing() -> None:
    network = trained(mode="static").float()
    report = similarity_report(network, folded(network), SHAPE)
    assert report is not None
    assert report.to_dict() == {
        "folded": 3,
        "forms": {},
        "operations": report.operations,
        "operations_over_plain": 1.0,
    }
    assert similarity_report(trained(), trained(), SHAPE) is None


def test_large_maps_are_shifted_and_matrices_named() -> None:
    network = trained("cnn9", mode="dynamic", hidden=5).float()
    report = similarity_report(network, folded(network), SHAPE)
    assert report is not None
    assert report.forms == {"shifts": 2, "patches": 6}
    assert "2 as shifts, 6 as patches" in report.describe()
    unconstrained = trained(mode="dynamic", hidden=5, kind="unconstrained").float()
    other = similarity_report(unconstrained, folded(unconstrained), SHAPE)
    assert other is not None
    assert other.forms == {"matrices": 3}


def test_the_trained_network_keeps_its_layers() -> None:
    network = trained(mode="dynamic", hidden=5)
    folded(network)
    assert sum(isinstance(layer, SimilarityConv) for layer in network.modules()) == 3
