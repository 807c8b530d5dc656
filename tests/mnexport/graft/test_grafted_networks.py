"""Networks of PyTorch in front of a head: of transformers, and of artifacts with adapting layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from common.head_artifacts import Samples, smooth_images, write_linear_head

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.precision.accuracy import Precision
from mnexport.report import ExportReport
from mnexport.repository.target import Target
from mntrain.artifact import load_artifact
from mntrain.config import load_experiment
from mntrain.networks.frozen_network import FrozenNetwork
from mntrain.networks.opening import open_named
from mntrain.networks.options import NetworkOptions
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions


def exported(artifact: Path, repository: Path, **changes: Any) -> ExportReport:
    target = Target(repository=repository, name="m")
    return export(ExportOptions(artifact=artifact, target=target, **{"max_batch_size": 4} | changes))


def check_answers(report: ExportReport, artifact: Path, network: FrozenNetwork, images: np.ndarray) -> None:
    """Hold the file to the network and head in PyTorch, on images that the export has not seen."""
    loaded = load_artifact(artifact)
    with torch.inference_mode():
        expected = loaded.model(loaded.preprocessing(torch.from_numpy(network.embed(images)))).logits.numpy()
    session = onnxruntime.InferenceSession(str(report.path))
    for batch in (1, len(images)):
        (found,) = session.run(["logits"], {"image": images[:batch]})
        np.testing.assert_allclose(found, expected[:batch], atol=1e-4, rtol=1e-4)


def from_configuration(folder: Path, config: Any) -> NetworkOptions:
    config.save_pretrained(folder)
    return NetworkOptions(source=f"hf:{folder}")


def test_a_residual_network_of_transformers(tmp_path: Path, repository: Path, head_on: Callable[..., Path]) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=3,
        architectures=["ResNetForImageClassification"],
    )  # fmt: skip
    network = open_named(from_configuration(tmp_path / "resnet", config), lambda _: None).for_images((3, 32, 32))
    artifact = head_on(network, 4)
    report = exported(artifact, repository, explain=2, form="factored")
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["input"]["resize"] == [224, 224]
    assert record["graft"]["cut"] is None
    assert record["graft"]["features"] is None
    assert record["network"]["kind"] == "transformers"
    check_answers(report, artifact, network, smooth_images(3, (3, 32, 32), seed=9))


def test_a_vision_transformer_in_16_bits(tmp_path: Path, repository: Path, head_on: Callable[..., Path]) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=14,
        num_labels=3, architectures=["Dinov2ForImageClassification"],
    )  # fmt: skip
    network = open_named(from_configuration(tmp_path / "dino", config), lambda _: None)
    frozen = network.for_images((3, 28, 28))
    artifact = head_on(frozen, 6)
    report = exported(artifact, repository)
    check_answers(report, artifact, frozen, smooth_images(3, (3, 28, 28), seed=9))
    lowered = exported(artifact, repository, precision=Precision(dtype="float16", max_accuracy_drop=1.0))
    assert lowered.accuracy is not None
    assert lowered.accuracy.max_probability_error < 0.05
    assert onnx.TensorProto.FLOAT16 in {item.data_type for item in onnx.load(lowered.path).graph.initializer}


@pytest.mark.parametrize("words", [["--backbone.ifilm", "true"], ["--backbone.similarity.mode", "dynamic"]])
def test_an_artifact_with_adapting_layers(words: list[str], tmp_path: Path, repository: Path) -> None:
    """Its layers take their static forms, and iFiLM gets its file for CPUs."""
    small = ["--family", "vanilla", "--name", "run", "--training.epochs", "1", "--data.train_limit", "64"]
    fit(load_experiment("digits", [*small, "--backbone.width", "0.25", *words]), FitOptions(runs=tmp_path, quiet=True))
    network = open_named(NetworkOptions(source=str(tmp_path / "run" / "artifact")), lambda _: None)
    size = network.input.size
    assert size is not None
    frozen = network.for_images((1, *size))
    images = smooth_images(8, (1, *size))
    write_linear_head(tmp_path / "head", frozen, Samples.of(frozen, images, 3))
    report = exported(tmp_path / "head", repository)
    check_answers(report, tmp_path / "head", frozen, smooth_images(3, (1, *size), seed=9))
    if "--backbone.ifilm" in words:
        assert report.cpu is not None
    else:
        assert report.similarity is not None
        assert sum(report.similarity.forms.values()) > 0
