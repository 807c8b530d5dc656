"""A user's ONNX classifier with a head in place of its own last layer: exported, served, explained, and timed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import tritonclient.grpc as triton
from common.head_artifacts import Samples, smooth_images, write_neighborhood_head
from PIL import Image

from mnexport.commands.cli import main as mnexport
from mnserve.commands.cli import main as mnserve
from mntrain.artifact import load_artifact
from mntrain.networks.opening import open_named
from mntrain.networks.options import NetworkOptions

NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
network (float[N, 16, 16, 3] photo) => (float[N, 2] scores)
<int64[2] axes = {2, 3}>
{
    channels_first = Transpose<perm = [0, 3, 1, 2]>(photo)
    maps = Conv<strides = [2, 2]>(channels_first, kernel)
    positive = Relu(maps)
    features = ReduceMean<axes = [2, 3], keepdims = 0>(positive)
    products = MatMul(features, last)
    scores = Softmax(products)
}
"""


@pytest.fixture(scope="module")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that takes NHWC, of operator set 17."""
    file = tmp_path_factory.mktemp("network") / "classifier.onnx"
    model = onnx.parser.parse_model(NETWORK)
    random = np.random.default_rng(0)
    for name, shape in (("kernel", (24, 3, 5, 5)), ("last", (24, 2))):
        values = random.normal(size=shape).astype(np.float32) / 5
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, file)
    return file


@pytest.fixture(scope="module")
def artifact(network_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("head") / "artifact"
    network = open_named(NetworkOptions(source=str(network_file), std=(0.25,)), lambda _: None)
    frozen = network.for_images((3, 16, 16), "crop")
    write_neighborhood_head(path, frozen, Samples.of(frozen, smooth_images(24, (3, 16, 16)), 4), 30)
    return path


@pytest.fixture(scope="module")
def repository(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    assert mnexport([str(artifact), str(root / "adapted"), "--explain", "2", "--form", "factored"]) == 0
    return root


def test_its_answers_and_neighbors_reach_a_client(
    artifact: Path, network_file: Path, repository: Path, start_server: Callable[..., Any]
) -> None:
    images = smooth_images(9, (3, 16, 16), seed=5)
    loaded = load_artifact(artifact)
    pixels = torch.from_numpy(images).float().div(255).div(0.25).permute(0, 2, 3, 1).numpy()
    kernel = torch.from_numpy(onnx.numpy_helper.to_array(onnx.load(network_file).graph.initializer[-2]).copy())
    maps = torch.nn.functional.conv2d(torch.from_numpy(pixels).permute(0, 3, 1, 2), kernel, stride=2)
    with torch.inference_mode():
        expected = loaded.model(loaded.preprocessing(maps.relu().mean((2, 3)))).logits.numpy()
    tensor = triton.InferInput("image", list(images.shape), "UINT8")
    tensor.set_data_from_numpy(images)
    server = start_server(repository)
    with triton.InferenceServerClient(server.address) as client:
        found = client.infer("adapted", [tensor]).as_numpy("logits")
        wanted = [triton.InferRequestedOutput("neighbor_weights")]
        explained = client.infer("adapted", [tensor], outputs=wanted).as_numpy("neighbor_weights")
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)
    assert explained.shape == (9, 2)


def test_a_photograph_is_classified_and_explained(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(smooth_images(1, (3, 40, 24))[0].transpose(1, 2, 0)).save(tmp_path / "photo.png")
    words = ["predict", str(repository / "adapted"), str(tmp_path / "photo.png"), "--explain", "--json"]
    assert mnserve(words) == 0
    assert "neighbor" in capsys.readouterr().out


def test_it_is_timed_beside_the_file_that_it_was_made_from(
    repository: Path, network_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "latency.json"
    quick = ["--batch", "1,8", "--seconds", "0.05", "--rounds", "2", "--json", str(out)]
    assert mnserve(["bench", str(repository), "adapted", "--against", str(network_file), *quick]) == 0
    result = json.loads(out.read_text())
    assert [len(one["ratio"]["rounds"]) for one in result["results"]] == [2, 2]
    assert result["against"]["inputs"] == {"photo": ["FP32", [16, 16, 3]]}
    assert (result["against"]["name"], result["against"]["version"]) == ("classifier.onnx", "")
    text = " ".join(capsys.readouterr().out.split())
    assert f"Timed: adapted/1/core.onnx and {network_file}." in text
    assert "classifier.onnx gets made-up numbers as its own input; adapted computes that from its own" in text
