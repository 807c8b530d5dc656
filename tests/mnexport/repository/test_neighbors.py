"""Training images beside an exported model: published when asked for, and equal to those of the artifact."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mnexport.commands.cli import main
from mnexport.options import ExportOptions
from mnexport.pipeline import export
from mnexport.report import ExportReport
from mnexport.repository import neighbors
from mnexport.repository.target import Target, sha256
from mntrain.artifact import load_artifact
from mntrain.errors import ArtifactError
from mntrain.neighbors.adding import NeighborOptions, add_neighbors
from mntrain.training.artifact_data import load_split


@pytest.fixture(scope="module")
def artifact(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small Meta-Neighborhoods artifact with two training images for each of its 60 entries."""
    folder = tmp_path_factory.mktemp("run") / "artifact"
    shutil.copytree(runs / "meta_neighborhoods" / "artifact", folder)
    add_neighbors(NeighborOptions(artifact=folder, images=2, quiet=True))
    return folder


def published(artifact: Path, repository: Path, explain: int = 3) -> ExportReport:
    target = Target(repository=repository, name="m")
    return export(ExportOptions(artifact=artifact, target=target, explain=explain, form="factored"))


def test_the_file_holds_the_images_of_the_artifact_and_its_digest_is_recorded(artifact: Path, repository: Path) -> None:
    report = published(artifact, repository)
    file = report.path.with_name("neighbors.npz")
    loaded = load_artifact(artifact)
    train = load_split(loaded.config, "train")
    with np.load(file, allow_pickle=False) as stored:
        arrays = dict(stored)
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "images": "uint8", "labels": "int64", "positions": "int64", "indices": "int32", "entry_labels": "int64",
    }  # fmt: skip
    assert arrays["indices"].shape == (60, 2)
    np.testing.assert_array_equal(arrays["images"], train.inputs[arrays["positions"]])
    np.testing.assert_array_equal(arrays["labels"], train.targets[arrays["positions"]])
    np.testing.assert_array_equal(arrays["entry_labels"], loaded.model.dictionary.values().argmax(-1))
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["sha256"]["neighbors.npz"] == sha256(file)
    assert record["neighbors"] == {
        "entries": 60, "images_per_entry": 2, "images": len(arrays["images"]), "left_out": None,
        "size": sum(array.nbytes for name, array in arrays.items() if name != "entry_labels"),
    }  # fmt: skip


def test_without_explanations_there_are_no_images(artifact: Path, repository: Path) -> None:
    report = published(artifact, repository, explain=0)
    assert not report.path.with_name("neighbors.npz").exists()
    record = json.loads(report.path.with_name("export.json").read_text())
    assert record["neighbors"] is None
    assert "neighbors.npz" not in record["sha256"]


def test_an_artifact_that_carries_none_publishes_none(runs: Path, repository: Path) -> None:
    report = published(runs / "meta_neighborhoods" / "artifact", repository)
    assert report.neighbors is None
    assert not report.path.with_name("neighbors.npz").exists()


def test_images_that_are_too_large_are_left_out_and_said_so(
    artifact: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(artifact), str(repository / "m"), "--explain", "3", "--form", "factored"]
    assert main([*words, "--version", "1"]) == 0
    assert "neighbors.npz: 2 training images for each of 60 entries" in " ".join(capsys.readouterr().out.split())
    size = json.loads((repository / "m/1/export.json").read_text())["neighbors"]["size"]
    monkeypatch.setattr(neighbors, "MAX_BYTES", size - 1)
    assert main([*words, "--version", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"no neighbors.npz: the training images take {size:,} bytes, at most {size - 1:,} are published" in said
    assert not (repository / "m/2/neighbors.npz").exists()
    record = json.loads((repository / "m/2/export.json").read_text())
    assert "neighbors.npz" not in record["sha256"]
    assert record["neighbors"]["left_out"].startswith("the training images take")
    monkeypatch.setattr(neighbors, "MAX_BYTES", size)
    assert main([*words, "--version", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["neighbors"]["left_out"] is None
    assert (repository / "m/3/neighbors.npz").is_file()


def test_a_damaged_file_stops_the_export_before_any_work(artifact: Path, repository: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(artifact, tmp_path / "damaged"))
    file = damaged / "neighbors.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(ArtifactError, match=r"neighbors\.safetensors is damaged .*or remove it"):
        published(damaged, repository)
    assert list(repository.iterdir()) == []
    published(damaged, repository, explain=0)
