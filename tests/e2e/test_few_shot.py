"""Few-shot classifiers over the network: a task in one request, and an artifact adapted before it was exported."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from numpy.typing import NDArray
from PIL import Image
from tritonclient.utils import InferenceServerException

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.commands.cli import main as mnserve
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.commands.cli import main as mntrain
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import PrototypeMethod
from mntrain.fewshot.network import FeatureNetwork

pytestmark = pytest.mark.usefixtures("kept_exports")

TOLERANCE = 1e-4
NAMES = ("nil", "one", "two", "three")


@pytest.fixture(scope="module")
def artifact(runs: Path) -> ImageArtifact:
    loaded = load_artifact(runs / "vanilla" / "artifact")
    assert isinstance(loaded, ImageArtifact)
    return loaded


@pytest.fixture(scope="module")
def adapted(artifact: ImageArtifact, tmp_path_factory: pytest.TempPathFactory) -> ImageArtifact:
    """The network adapted to three pictures of each of four digits under other names."""
    folder = tmp_path_factory.mktemp("adapted")
    for label, name in enumerate(NAMES):
        (folder / "support" / name).mkdir(parents=True)
        for position in np.flatnonzero(artifact.samples.labels == label)[:3]:
            Image.fromarray(artifact.samples.images[position, 0]).save(folder / "support" / name / f"{position}.png")
    words = ["--data.path", str(folder / "support"), "--method", "static-nsn", "--finetune.start", "means", "--json"]
    assert mntrain(["adapt", str(artifact.path), str(folder / "new"), *words, "--finetune.epochs", "3"]) == 0
    loaded = load_artifact(folder / "new")
    assert isinstance(loaded, ImageArtifact)
    return loaded


@pytest.fixture(scope="module")
def server(
    artifact: ImageArtifact,
    adapted: ImageArtifact,
    tmp_path_factory: pytest.TempPathFactory,
    start_server: Callable[..., Any],
) -> Any:
    repository = tmp_path_factory.mktemp("repository")
    export(ExportOptions(artifact=artifact.path, target=Target(repository=repository, name="tasks"), few_shot=True))
    export(ExportOptions(artifact=adapted.path, target=Target(repository=repository, name="new")))
    return start_server(repository, "--http-port", "0")


def tensor(name: str, values: NDArray[Any], datatype: str) -> Any:
    made = triton.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values)
    return made


@pytest.mark.parametrize(("ways", "shots", "queries"), [(2, 1, 1), (5, 1, 20), (5, 5, 7), (10, 3, 1)])
def test_a_task_in_one_request_is_answered_as_by_protonet(
    server: Any, artifact: ImageArtifact, ways: int, shots: int, queries: int
) -> None:
    labels = artifact.samples.labels
    support = np.concatenate([np.flatnonzero(labels == label)[:shots] for label in range(ways)])
    asked = np.setdiff1d(np.arange(len(labels)), support)[:queries]
    images, numbers = artifact.samples.images, labels[support]
    inputs = [
        tensor("support_images", images[support], "UINT8"),
        tensor("support_labels", numbers, "INT64"),
        tensor("image", images[asked], "UINT8"),
    ]
    with triton.InferenceServerClient(server.address) as client:
        answer = client.infer("tasks", inputs)
    found, probabilities = answer.as_numpy("logits"), answer.as_numpy("probabilities")
    method = PrototypeMethod(FeatureNetwork.of(artifact))
    known = SupportSet(method.prepare(torch.from_numpy(images[support])), torch.from_numpy(numbers), ways)
    expected = method.classify(known, method.prepare(torch.from_numpy(images[asked])))
    assert found.shape == (queries, ways)
    np.testing.assert_allclose(found, expected.numpy(), atol=TOLERANCE, rtol=TOLERANCE)
    np.testing.assert_allclose(probabilities, expected.softmax(dim=1).numpy(), atol=TOLERANCE, rtol=0)
    assert (found.argmax(axis=1) == expected.argmax(dim=1).numpy()).all()


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (
            [0, 1],
            "input 'support_labels' has size 2 in dimension 0, but input 'support_images' has size 4 in dimension 0",
        ),
        ([0, 1, -1, 0], "input 'support_labels' has the value -1 at index [2], expected values from 0 to 3"),
        ([0, 1, 4, 0], "input 'support_labels' has the value 4 at index [2], expected values from 0 to 3"),
        ([0] * 1000, "the request has 1000 in input 'support_images' and 30 in input 'image', 1030 rows together"),
    ],
)
def test_a_wrong_task_is_a_fault_of_the_caller(
    server: Any, artifact: ImageArtifact, labels: list[int], told: str
) -> None:
    images = artifact.samples.images
    support = np.resize(images, (max(4, len(labels)), *images.shape[1:]))
    asked = images[:30] if len(labels) > 4 else images[:2]
    arrays = {
        "support_images": ("UINT8", support),
        "support_labels": ("INT64", np.array(labels, np.int64)),
        "image": ("UINT8", asked),
    }
    with triton.InferenceServerClient(server.address) as client, pytest.raises(InferenceServerException) as error:
        client.infer("tasks", [tensor(name, array, kind) for name, (kind, array) in arrays.items()])
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert told in str(error.value)
    body = {
        "inputs": [
            {"name": name, "datatype": kind, "shape": list(array.shape), "data": array.ravel().tolist()}
            for name, (kind, array) in arrays.items()
        ]
    }
    web = server.announcement.split("http://")[1].split(",")[0].strip()
    request = urllib.request.Request(
        f"http://{web}/v2/models/tasks/infer", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 400
    assert told in json.loads(refused.value.read())["error"]


def test_an_adapted_artifact_is_served_as_any_other(
    server: Any, adapted: ImageArtifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = adapted.samples.images
    with torch.inference_mode():
        expected = adapted.model(adapted.preprocessing(torch.from_numpy(images))).logits.numpy()
    with triton.InferenceServerClient(server.address) as client:
        found = client.infer("new", [tensor("image", images, "UINT8")]).as_numpy("logits")
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    Image.fromarray(images[0, 0]).save(tmp_path / "digit.png")
    assert mnserve(["predict", "new", str(tmp_path / "digit.png"), "--url", server.address]) == 0
    assert NAMES[expected[0].argmax()] in capsys.readouterr().out.split()
