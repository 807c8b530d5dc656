"""Training images from the data to whoever asks why: found, exported, served, shown, and every one the right one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mnexport.commands.cli import main as mnexport
from mnserve.commands.cli import main as mnserve
from mntrain.artifact import ImageArtifact, load_artifact
from mntrain.commands.cli import main as mntrain
from mntrain.training.artifact_data import load_split

pytestmark = pytest.mark.usefixtures("kept_exports")


@pytest.fixture(scope="module")
def artifact(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> ImageArtifact:
    folder = tmp_path_factory.mktemp("run") / "artifact"
    shutil.copytree(runs / "meta_neighborhoods" / "artifact", folder)
    assert mntrain(["neighbors", str(folder), "--images", "2", "--json"]) == 0
    loaded = load_artifact(folder)
    assert isinstance(loaded, ImageArtifact)
    return loaded


@pytest.fixture(scope="module")
def repository(artifact: ImageArtifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    assert mnexport([str(artifact.path), str(folder / "digits"), "--explain", "4", "--json"]) == 0
    return folder


@pytest.fixture
def digits(artifact: ImageArtifact, tmp_path: Path) -> list[str]:
    files = [str(tmp_path / f"{index}.png") for index in range(3)]
    for file, image in zip(files, artifact.samples.images, strict=False):
        Image.fromarray(image[0]).save(file)
    return files


def test_the_images_told_are_the_nearest_of_the_training_split(
    artifact: ImageArtifact, repository: Path, digits: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = ["predict", str(repository / "digits"), *digits, "--explain", "--json", "--html", str(page)]
    capsys.readouterr()
    assert mnserve(words) == 0
    train = load_split(artifact.config, "train")
    with torch.inference_mode():
        features = artifact.model.backbone(artifact.preprocessing(torch.from_numpy(train.inputs)))
        keys = artifact.model.dictionary.keys
        cosines = torch.cosine_similarity(features[:, None].double(), keys[None].double(), dim=-1).numpy()
    answers = json.loads(capsys.readouterr().out)
    for answer in answers:
        for neighbor in answer["explanation"]["neighbors"]:
            column = cosines[:, neighbor["entry"]]
            positions = [image["position"] for image in neighbor["training_images"]]
            np.testing.assert_allclose(column[positions], -np.sort(-column)[:2], atol=1e-6)
            assert [image["label"] for image in neighbor["training_images"]] == [
                artifact.config.labels[train.targets[position]] for position in positions
            ]
    assert page.read_text().count("<article>") == 3
    assert page.read_text().count("<img ") == 3 + 3 * 4 * 2


def test_a_remote_model_takes_the_file_by_name(
    repository: Path, digits: list[str], start_server: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server(repository)
    words = ["predict", "digits", *digits, "--url", server.address, "--explain", "--json"]
    capsys.readouterr()
    assert mnserve(words) == 0
    assert "training_images" not in capsys.readouterr().out
    assert mnserve([*words, "--neighbors", str(repository / "digits/1/neighbors.npz")]) == 0
    remote = json.loads(capsys.readouterr().out)
    words[1] = str(repository / "digits")
    assert mnserve(words) == 0
    local = json.loads(capsys.readouterr().out)
    images = [
        [[one["training_images"] for one in answer["explanation"]["neighbors"]] for answer in answers]
        for answers in (remote, local)
    ]
    assert images[0] == images[1]
    assert mnserve([*words, "--neighbors", digits[0]]) == 1
    assert "is no file of training images" in capsys.readouterr().err


def test_whatever_is_written_has_the_permissions_of_a_new_file(
    artifact: ImageArtifact, repository: Path, runs: Path, digits: list[str], tmp_path: Path
) -> None:
    """Artifacts, runs, repositories and pages can be read by whom the umask lets read."""
    page = ["--html", str(tmp_path / "page.html")]
    assert mnserve(["predict", str(repository / "digits"), digits[0], "--explain", *page]) == 0
    plain = tmp_path / "plain"
    plain.touch()
    (tmp_path / "folder").mkdir()
    usual = {True: (tmp_path / "folder").stat().st_mode, False: plain.stat().st_mode}
    places = (artifact.path, repository / "digits", *(runs / name for name in ("meta_neighborhoods", "maxl")), tmp_path)
    written = [item for place in places for item in (place, *place.rglob("*"))]
    kinds = {item.suffix for item in written}
    assert kinds >= {".safetensors", ".onnx", ".npz", ".pt", ".json", ".pbtxt", ".txt", ".yaml", ".csv", ".html"}
    others = {item.name: oct(item.stat().st_mode) for item in written if item.stat().st_mode != usual[item.is_dir()]}
    assert {name: mode for name, mode in others.items() if not name.startswith("test_")} == {}
