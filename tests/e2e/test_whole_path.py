"""Trained, exported, served, asked by clients of other people: the answers are the trained model's."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton
from PIL import Image

from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.repository.target import Target
from mnserve.commands.cli import main as mnserve
from mntrain.artifact import Artifact, load_artifact

pytestmark = pytest.mark.usefixtures("kept_exports")

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def artifact(runs: Path) -> Artifact:
    return load_artifact(runs / "meta_neighborhoods" / "artifact")


@pytest.fixture(scope="module")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory, start_server: Callable[..., Any]) -> Any:
    repository = tmp_path_factory.mktemp("repository")
    for name, settings in {
        "digits-mn": {"form": "factored"},
        "digits-low-rank": {"form": "low_rank", "explain": 5},
        "digits-explicit": {"form": "explicit"},
        "digits-plain": {"vanilla": True},
    }.items():
        target = Target(repository=repository, name=name)
        export(ExportOptions(artifact=runs / "meta_neighborhoods" / "artifact", target=target, **settings))
    return start_server(repository)


def ask(client: Any, model: str, images: np.ndarray, output: str = "logits") -> np.ndarray:
    tensor = triton.InferInput("image", list(images.shape), "UINT8")
    tensor.set_data_from_numpy(images)
    return np.asarray(client.infer(model, [tensor]).as_numpy(output))


def trained_logits(artifact: Artifact) -> np.ndarray:
    with torch.inference_mode():
        prediction = artifact.model(artifact.preprocessing(torch.from_numpy(artifact.samples.images)))
    return np.asarray(prediction.logits.numpy())


@pytest.mark.parametrize("model", ["digits-mn", "digits-explicit"])
def test_the_served_answers_are_the_trained_models(server: Any, artifact: Artifact, model: str) -> None:
    expected, images = trained_logits(artifact), artifact.samples.images
    with triton.InferenceServerClient(server.address) as client:
        for start, rows in ((0, 1), (1, 2), (3, 61), (64, 64)):
            chunk = slice(start, start + rows)
            found = ask(client, model, images[chunk])
            np.testing.assert_allclose(found, expected[chunk], atol=TOLERANCE, rtol=0)
            assert (found.argmax(1) == expected[chunk].argmax(1)).all()


def test_an_approximated_model_is_served_within_its_tolerance(server: Any, artifact: Artifact) -> None:
    images = artifact.samples.images
    logits = trained_logits(artifact).astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    with triton.InferenceServerClient(server.address) as client:
        found = ask(client, "digits-low-rank", images[:64], "probabilities")
    np.testing.assert_allclose(found, (powers / powers.sum(axis=1, keepdims=True))[:64], atol=1e-3, rtol=0)


def test_an_explanation_is_given_to_those_who_ask(server: Any, artifact: Artifact) -> None:
    images = artifact.samples.images[:6]
    tensor = triton.InferInput("image", list(images.shape), "UINT8")
    tensor.set_data_from_numpy(images)
    explanation = ("neighbor_indices", "neighbor_weights", "neighbor_labels", "unadapted_probabilities")
    with triton.InferenceServerClient(server.address) as client:
        offered = [output.name for output in client.get_model_metadata("digits-low-rank").outputs]
        plain = client.infer("digits-low-rank", [tensor])
        asked = client.infer("digits-low-rank", [tensor], outputs=[triton.InferRequestedOutput(n) for n in explanation])
    assert offered == ["logits", "probabilities", *explanation]
    assert [output.name for output in plain.get_response().outputs] == ["logits", "probabilities"]
    with torch.inference_mode():
        features = artifact.model.backbone(artifact.preprocessing(torch.from_numpy(images)))
        attention = artifact.model.attention_over_all(features).numpy()
    named = np.take_along_axis(attention, asked.as_numpy("neighbor_indices"), axis=1)
    np.testing.assert_allclose(asked.as_numpy("neighbor_weights"), named, atol=1e-5)
    assert asked.as_numpy("unadapted_probabilities").shape == (6, 10)


def test_predict_explains(server: Any, artifact: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(artifact.samples.images[0, 0]).save(tmp_path / "digit.png")
    words = ["predict", "digits-low-rank", str(tmp_path / "digit.png"), "--url", server.address]
    assert mnserve([*words, "--explain", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    weights = [item["weight"] for item in answer["explanation"]["neighbors"]]
    assert len(weights) == 5
    assert weights == sorted(weights, reverse=True)
    assert answer["explanation"]["unadapted"]["label"] in "0123456789"
    assert mnserve([*words, "--explain"]) == 0
    assert "; without adaptation " in (out := capsys.readouterr().out)
    assert out.count("#") == 5
    assert mnserve([*words]) == 0
    assert "adaptation" not in capsys.readouterr().out
    words[1] = "digits-mn"
    assert mnserve([*words, "--explain"]) == 1
    assert "mnexport --explain K" in capsys.readouterr().err


def test_callers_of_mixed_sizes_get_their_own_rows(server: Any, artifact: Artifact) -> None:
    """Batched together, adapted one by one: no row depends on, or is swapped with, another caller's."""
    expected, images = trained_logits(artifact), artifact.samples.images

    def caller(seed: int) -> float:
        random, worst = np.random.default_rng(seed), 0.0
        with triton.InferenceServerClient(server.address) as client:
            for _ in range(10):
                rows = random.choice(len(images), random.integers(1, 9), replace=False)
                found = ask(client, "digits-mn", images[rows])
                worst = max(worst, float(np.abs(found - expected[rows]).max()))
        return worst

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(caller, range(8))) <= TOLERANCE


def test_adaptation_reaches_the_client(server: Any, artifact: Artifact) -> None:
    images = artifact.samples.images[:64]
    with triton.InferenceServerClient(server.address) as client:
        adapted, plain = ask(client, "digits-mn", images), ask(client, "digits-plain", images)
    assert np.abs(adapted - plain).max() > 1e-3


def test_image_files_get_the_trained_models_labels(
    server: Any, artifact: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for index in range(6):
        files.append(str(tmp_path / f"{index}.png"))
        Image.fromarray(artifact.samples.images[index, 0]).save(files[-1])
    assert mnserve(["predict", "digits-mn", *files, "--url", server.address]) == 0
    lines = capsys.readouterr().out.splitlines()
    for index, line in enumerate(lines[:6]):
        assert artifact.config.labels[trained_logits(artifact)[index].argmax()] in line.split()
