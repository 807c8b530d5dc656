"""Meta-Neighborhoods on a network of dynamic similarity: trained, exported, served, and timed beside its plain twin."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.commands.cli import main as mnserve
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.config import load_experiment
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

pytestmark = pytest.mark.usefixtures("kept_exports")
FORMS: dict[str, dict[str, Any]] = {
    "adapted": {"form": "factored", "explain": 2},
    "plain": {"vanilla": True},
}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> ImageArtifact:
    runs = tmp_path_factory.mktemp("runs")
    words = ["--family", "meta_neighborhoods", "--name", "run", "--training.epochs", "1", "--data.train_limit", "64"]
    words += [
        "--data.image_size",
        "16",
        "--backbone.name",
        "cnn4",
        "--backbone.width",
        "0.1",
        "--meta_neighborhoods.entries",
        "20",
    ]
    words += ["--backbone.similarity.mode", "dynamic", "--backbone.similarity.hidden", "4"]
    fit(load_experiment("digits", words), FitOptions(runs=runs, quiet=True))
    trained = load_artifact(runs / "run" / "artifact")
    assert isinstance(trained, ImageArtifact)
    return trained


@pytest.fixture(scope="module")
def repository(artifact: ImageArtifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    for name, settings in FORMS.items():
        export(ExportOptions(artifact=artifact.path, target=Target(repository=root, name=name), **settings))
    return root


def test_its_answers_reach_a_client_and_are_not_those_of_the_plain_twin(
    artifact: ImageArtifact, repository: Path, start_server: Callable[..., Any]
) -> None:
    images = artifact.samples.images[:16]
    with torch.inference_mode():
        expected = artifact.model(artifact.preprocessing(torch.from_numpy(images))).logits.numpy()
    tensor = triton.InferInput("image", list(images.shape), "UINT8")
    tensor.set_data_from_numpy(images)
    server = start_server(repository)
    with triton.InferenceServerClient(server.address) as client:
        found = {name: client.infer(name, [tensor]).as_numpy("logits") for name in FORMS}
        wanted = [triton.InferRequestedOutput("neighbor_weights")]
        explained = client.infer("adapted", [tensor], outputs=wanted).as_numpy("neighbor_weights")
    np.testing.assert_allclose(found["adapted"], expected, atol=1e-4, rtol=1e-4)
    assert np.abs(found["plain"] - expected).max() > 1e-3
    assert explained.shape == (16, 2)


def test_it_is_timed_beside_its_plain_twin(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "latency.json"
    quick = ["--batch", "1,8", "--seconds", "0.05", "--rounds", "2", "--json", str(out)]
    assert mnserve(["bench", str(repository), "adapted", "--against", "plain", "--grpc", *quick]) == 0
    result = json.loads(out.read_text())
    assert [one["batch"] for one in result["results"]] == [1, 8]
    assert all(len(one["ratio"]["rounds"]) == 2 for one in result["results"])
    record = json.loads((repository / "adapted" / "1" / "export.json").read_text())
    assert record["similarity"]
