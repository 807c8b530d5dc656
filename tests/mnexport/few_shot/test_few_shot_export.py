"""``mnexport --few-shot``: the published graph against the nearest mean written out, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from google.protobuf import text_format
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from tritonclient.grpc import model_config_pb2

import mnserve
from mnexport.commands.cli import main
from mnexport.errors import FormError, PublishError, UsageError
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.errors import InvalidRequestError
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.fewshot.network import FeatureNetwork

Feeds = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def artifact(runs: Path) -> ImageArtifact:
    loaded = load_artifact(runs / "vanilla" / "artifact")
    assert isinstance(loaded, ImageArtifact)
    return loaded


@pytest.fixture(scope="module")
def published(artifact: ImageArtifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repository with the few-shot classifier ``m``."""
    repository = tmp_path_factory.mktemp("repository")
    export(ExportOptions(artifact=artifact.path, target=Target(repository=repository, name="m"), few_shot=True))
    return repository


@pytest.fixture(scope="module")
def answer(published: Path) -> Callable[[Feeds], NDArray[np.float32]]:
    """Logits of the published file."""
    session = onnxruntime.InferenceSession(str(published / "m" / "1" / "model.onnx"))

    def run(feeds: Feeds) -> NDArray[np.float32]:
        logits, probabilities = session.run(["logits", "probabilities"], feeds)
        np.testing.assert_allclose(probabilities, torch.from_numpy(logits).softmax(dim=1).numpy(), atol=1e-6)
        return np.asarray(logits)

    return run


def feeds(images: NDArray[np.uint8], labels: list[int]) -> Feeds:
    count = len(labels)
    return {
        "support_images": images[:count],
        "support_labels": np.array(labels, np.int64),
        "image": images[count:],
    }


def distances(artifact: ImageArtifact, task: Feeds, classes: int) -> NDArray[np.float64]:
    """Negative squared distance of each query to the mean of each class, one by one."""

    network = FeatureNetwork.of(artifact)

    def features(images: NDArray[np.uint8]) -> NDArray[np.float64]:
        with torch.inference_mode():
            found: NDArray[np.float64] = network.embed(torch.from_numpy(images)).double().numpy()
        return found

    supports, queries = features(task["support_images"]), features(task["image"])
    means = [supports[task["support_labels"] == label].mean(axis=0) for label in range(classes)]
    return np.array([[-((query - mean) ** 2).sum() for mean in means] for query in queries])


@pytest.mark.parametrize(
    ("labels", "queries"), [([0, 1], 1), ([1, 0, 2, 2, 1], 7), ([4, 3, 2, 1, 0, 0, 0], 2), ([0, 0, 0], 3)]
)
def test_the_graph_answers_with_the_nearest_mean(
    artifact: ImageArtifact, answer: Callable[[Feeds], NDArray[np.float32]], labels: list[int], queries: int
) -> None:
    task = feeds(artifact.samples.images[: len(labels) + queries], labels)
    logits = answer(task)
    assert logits.shape == (queries, max(labels) + 1)
    np.testing.assert_allclose(logits, distances(artifact, task, max(labels) + 1), rtol=1e-4, atol=1e-4)


def test_queries_do_not_change_one_another(
    artifact: ImageArtifact, answer: Callable[[Feeds], NDArray[np.float32]]
) -> None:
    task = feeds(artifact.samples.images[:10], [0, 1, 1, 0])
    together = answer(task)
    alone = [answer(task | {"image": task["image"][row : row + 1]}) for row in range(6)]
    np.testing.assert_allclose(np.concatenate(alone), together, rtol=1e-4, atol=1e-4)


def test_a_class_without_images_is_no_answer(
    artifact: ImageArtifact, answer: Callable[[Feeds], NDArray[np.float32]]
) -> None:
    logits = answer(feeds(artifact.samples.images[:6], [0, 2, 2]))
    assert (logits[:, 1] == np.finfo(np.float32).min).all()
    assert (logits.argmax(axis=1) != 1).all()


@pytest.mark.parametrize("labels", [[0, 1, -1], [0, 1, 3], [0, 1, 10**12], [-4, 0, 1]])
def test_a_label_of_no_class_is_refused(
    artifact: ImageArtifact, answer: Callable[[Feeds], NDArray[np.float32]], labels: list[int]
) -> None:
    """Neither counted from the last class on nor left out: all answers would be wrong without a word."""
    with pytest.raises(InvalidArgument, match="indices element out of data bounds"):
        answer(feeds(artifact.samples.images[:6], labels))


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 0], [0, 1, 0, 1, 1], [0] * 8, [0]])
def test_more_or_fewer_labels_than_support_images_are_no_task(
    artifact: ImageArtifact, answer: Callable[[Feeds], NDArray[np.float32]], labels: list[int]
) -> None:
    """Images were cut where the labels end, so that support images were answered, or images to classify learned."""
    task = feeds(artifact.samples.images[:6], [0, 1, 0, 1]) | {"support_labels": np.array(labels, np.int64)}
    with pytest.raises(Fail, match="dimension mismatch"):
        answer(task)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"support_labels": [0, 1]},
            "input 'support_labels' has size 2 in dimension 0, but input 'support_images' has",
        ),
        (
            {"support_labels": [0, 1, -1, 0]},
            "'support_labels' has the value -1 at index [2], expected values from 0 to 3",
        ),
        (
            {"support_labels": [0, 1, 4, 0]},
            "'support_labels' has the value 4 at index [2], expected values from 0 to 3",
        ),
    ],
)
def test_a_wrong_request_is_told_of_in_this_process_too(
    artifact: ImageArtifact, published: Path, changes: dict[str, list[int]], told: str
) -> None:
    task = feeds(artifact.samples.images[:6], [0, 1, 0, 1])
    with mnserve.LocalModel.open(published, "m") as model, pytest.raises(InvalidRequestError) as error:
        model.infer(task | {name: np.array(value, np.int64) for name, value in changes.items()}, ["logits"])
    assert told in str(error.value)


def test_support_images_and_queries_have_a_limit(artifact: ImageArtifact, tmp_path: Path) -> None:
    def options(**changes: Any) -> ExportOptions:
        target = Target(repository=tmp_path, name="m")
        return ExportOptions(artifact=artifact.path, target=target, few_shot=True, **changes)

    export(options(max_batch_size=6))
    record = json.loads((tmp_path / "m/1/export.json").read_text())
    assert record["row_limit"] == {"inputs": ["support_images", "image"], "most": 6}
    task = feeds(artifact.samples.images[:7], [0, 1, 0])
    with mnserve.LocalModel.open(tmp_path, "m") as model:
        assert model.infer(task | {"image": task["image"][:3]}, ["logits"])["logits"].shape == (3, 2)
        with pytest.raises(
            InvalidRequestError, match="3 in input 'support_images' and 4 in input 'image', 7 rows toge"
        ):
            model.infer(task, ["logits"])
    with pytest.raises(
        PublishError, match=r"has row_limit .*give --max-batch-size 6, or publish it under another name"
    ):
        export(options())
    with pytest.raises(UsageError, match="--max-batch-size is 1; it must be from 2 to 65536"):
        options(max_batch_size=1)


def test_the_repository_describes_tasks_that_are_not_joined(published: Path) -> None:
    config = text_format.Parse((published / "m/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")
    assert [(item.name, list(item.dims)) for item in config.input] == [
        ("support_images", [-1, 1, 8, 8]),
        ("support_labels", [-1]),
        ("image", [-1, 1, 8, 8]),
    ]
    record = json.loads((published / "m/1/export.json").read_text())
    assert (record["form"], record["family"], record["labels"]) == ("few-shot", "vanilla", None)
    assert record["row_limit"] == {"inputs": ["support_images", "image"], "most": 1024}
    assert record["value_ranges"] == {"support_labels": {"least": 0, "below": "support_images"}}
    for name in ("row_limit", "value_ranges"):
        assert json.loads(config.parameters[f"mn.{name}"].string_value) == record[name]
    assert record["inputs"][1] == {"name": "support_labels", "datatype": "INT64", "shape": [-1]}
    assert [item["argmax_differences"] for item in record["parity"]["comparisons"]] == [0, 0, 0]
    assert not (published / "m/labels.txt").exists()


def test_a_server_answers_tasks_of_any_size(
    artifact: ImageArtifact, published: Path, answer: Callable[[Feeds], NDArray[np.float32]]
) -> None:
    with mnserve.LocalModel.open(published, "m") as model:
        for labels in ([0, 1], [2, 0, 1, 1]):
            task = feeds(artifact.samples.images[:9], labels)
            found = model.infer(task, ["logits"])["logits"]
            np.testing.assert_allclose(found, answer(task), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "option"), [({"vanilla": True}, "--vanilla"), ({"explain": 3}, "--explain"), ({"rank": 2}, "--rank")]
)
def test_options_without_a_meaning_are_refused(artifact: ImageArtifact, changes: dict[str, Any], option: str) -> None:
    target = Target(repository=Path("nowhere"), name="m")
    with pytest.raises(UsageError, match=f"on which {option} does not act"):
        ExportOptions(artifact=artifact.path, target=target, few_shot=True, **changes)


def test_the_command_exports_and_says_so(
    artifact: ImageArtifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(artifact.path), str(tmp_path / "m"), "--few-shot", "--input-type", "float32"]) == 0
    out, _ = capsys.readouterr()
    assert "nearest of 5 means of 5" in out
    assert "nearest mean of the support set, in closed form" in out
    session = onnxruntime.InferenceSession(str(tmp_path / "m" / "1" / "model.onnx"))
    assert [item.type for item in session.get_inputs()] == ["tensor(float)", "tensor(int64)", "tensor(float)"]


def test_a_model_of_rows_is_refused(tmp_path: Path) -> None:
    from mntrain.commands.cli import main as train

    words = ["--data.rows", "60", "--training.epochs", "1", "--family", "vanilla", "--name", "a"]
    assert train(["fit", "spiral", *words, "--runs", str(tmp_path), "--json"]) == 0
    target = Target(repository=tmp_path / "repository", name="m")
    with pytest.raises(FormError, match="holds a model of rows; --few-shot is for images"):
        export(ExportOptions(artifact=tmp_path / "a" / "artifact", target=target, few_shot=True))
