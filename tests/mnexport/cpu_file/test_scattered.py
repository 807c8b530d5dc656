"""Predicted similarities in the form for CPUs: the same answers, in ``cpu.onnx`` alone.

Shapes: images [B, 3, 16, 16], features [B, d].
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from mnexport.cpu_file.scattered import ScatteredConv, scattered_for_cpus
from mnexport.forms.layers import static_layers
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.precision.accuracy import Precision
from mnexport.repository.target import Target
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.models.opened_model import OpenedModel
from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.config import load_experiment
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

SHAPE = (3, 16, 16)
SETTINGS: dict[str, dict[str, Any]] = {
    "sphere": {},
    "1x1": {"second_kernel": 1},
    "5x5": {"second_kernel": 5},
    "shared": {"shared": True},
    "plain": {"predictor": "plain"},
    "angles": {"normalise": "both", "measure": "linear"},
    "joint": {"kernel_shape": True, "shape_keep": 5},
    "bare": {"residual": False},
}


def static_network(name: str, width: float = 0.25, **settings: Any) -> nn.Module:
    """Static form of a backbone whose weights and statistics are off their start."""
    torch.manual_seed(0)
    similarity = SimilarityConfig(**({"mode": "dynamic", "hidden": 5} | settings))
    network = build_backbone(BackboneConfig(name=name, width=width, similarity=similarity), SHAPE)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        for _ in range(3):
            network.train()(torch.randn(8, *SHAPE))
    static = copy.deepcopy(network.double().eval())
    static_layers(static)
    return static.eval().requires_grad_(False)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("name", "width"), [("cnn4", 0.25), ("cnn4", 1.3), ("resnet29", 0.25)])
def test_answers_are_those_of_the_ordinary_form(name: str, width: float, settings: dict[str, Any]) -> None:
    network = static_network(name, width, **settings)
    scattered, count = scattered_for_cpus(network)
    assert count == sum(isinstance(layer, ScatteredConv) for layer in scattered.modules()) > 0
    assert not any(isinstance(layer, ScatteredConv) for layer in network.modules())
    images = torch.randn(5, *SHAPE, dtype=torch.float64)
    with torch.inference_mode():
        torch.testing.assert_close(scattered(images), network(images), atol=1e-9, rtol=1e-9)


def test_unconstrained_and_static_similarities_stay_as_they_are() -> None:
    for settings in ({"kind": "unconstrained"}, {"mode": "static", "hidden": 0}):
        network = static_network("cnn4", **settings)
        assert scattered_for_cpus(network) == (network, 0)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifact of Meta-Neighborhoods on a dynamic network, on digits."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["--family", "meta_neighborhoods", "--name", "m", "--backbone.similarity.mode", "dynamic"]
    words += ["--backbone.similarity.hidden", "8", "--backbone.width", "0.5", "--training.epochs", "1"]
    words += ["--meta_neighborhoods.entries", "40", "--meta_neighborhoods.init", "paper"]
    fit(load_experiment("digits", words), FitOptions(runs=folder, quiet=True))
    return folder / "m" / "artifact"


def operators(file: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(str(file)).graph.node)


@pytest.mark.parametrize(("form", "explain"), [("factored", 0), ("factored", 3), ("auto", 0)])
def test_the_file_for_cpus_adds_products_up(artifact: Path, repository: Path, form: str, explain: int) -> None:
    options = ExportOptions(
        artifact=artifact, target=Target(repository=repository, name="m"), form=form, explain=explain
    )
    report = export(options)
    version = repository / "m" / "1"
    assert report.cpu is not None
    layers = report.cpu.scattered
    assert layers > 0
    assert operators(version / "cpu.onnx")["Col2Im"] >= 2 * layers
    assert operators(version / "model.onnx")["Col2Im"] == 0
    assert json.loads((version / "export.json").read_text())["cpu"]["scattered"] == layers
    assert f"cpu.onnx adds up the predicted similarities of {layers} layers" in str(
        report.cpu and report.cpu.describe()
    )
    assert [item.what for item in report.parity.comparisons].count("onnxruntime, cpu.onnx") > 0
    whole = OnnxRuntimeEngine(version / "model.onnx", EngineOptions())
    images = np.random.default_rng(0).integers(0, 256, (11, 1, 8, 8), np.uint8)
    with OpenedModel(repository, "m") as model:
        assert model.file == "cpu.onnx"
        for count in (1, 8, 11):
            feeds = {"image": images[:count]}
            found = model.infer(feeds, ["probabilities"])["probabilities"]
            np.testing.assert_allclose(found, whole.run(feeds, ["probabilities"])[0], atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_other_dtypes_have_no_such_file(artifact: Path, repository: Path, dtype: Any) -> None:
    target = Target(repository=repository, name="m")
    precision = Precision(dtype=dtype, max_accuracy_drop=1.0)
    export(ExportOptions(artifact=artifact, target=target, form="factored", precision=precision))
    assert not (repository / "m" / "1" / "cpu.onnx").exists()
