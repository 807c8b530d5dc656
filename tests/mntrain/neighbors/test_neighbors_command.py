"""``mntrain neighbors``: what it says, and sentences for what has no neighbors among images."""

import json
import os
import shutil
from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main
from mntrain.neighbors.file import NAME


def test_neighbors_adds_a_file_and_prints_its_content(artifact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {item.name: item.read_bytes() for item in artifact.iterdir()}
    assert main(["neighbors", str(artifact)]) == 0
    out, err = capsys.readouterr()
    stored = load_file(str(artifact / NAME))
    assert f"3 nearest of 1,294 training images for each of 60 entries, {len(stored['images'])} different" in out
    assert err == "looking at 1294 training images\n"
    assert {name: (artifact / name).read_bytes() for name in before} == before
    assert main(["neighbors", str(artifact), "--images", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert (found["entries"], found["images"], found["looked_at"]) == (60, 2, 1294)
    assert found["size"] == (artifact / NAME).stat().st_size
    stored = load_file(str(artifact / NAME))
    classes = load_artifact(artifact).model.dictionary.values().argmax(-1).numpy()
    same = [stored["labels"][image] == classes[entry] for entry, row in enumerate(stored["indices"]) for image in row]
    assert found["share_of_entry_class"] == pytest.approx(np.mean(same))


def test_the_data_may_have_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Augmentation of the run has no part in what is near: every stored image is one of the data."""
    pixels = np.random.default_rng(0).integers(0, 255, (80, 8, 8), dtype=np.uint8)
    rows = {"image": [Image.fromarray(one) for one in pixels], "label": ["ab"[index % 2] for index in range(80)]}
    datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image()).save_to_disk(str(tmp_path / "data"))
    small = ["--training.epochs", "1", "--backbone.width", "0.1", "--meta_neighborhoods.entries", "8"]
    small += ["--augmentation.crop_padding", "2", "--augmentation.flip", "true"]
    data = ["--data.source", "datasets", "--data.path", str(tmp_path / "data")]
    assert main(["fit", "digits", "--runs", str(tmp_path), "--name", "a", "--json", *small, *data]) == 0
    artifact = tmp_path / "a" / "artifact"
    shutil.move(tmp_path / "data", tmp_path / "moved")
    capsys.readouterr()
    assert main(["neighbors", str(artifact), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "Say where the data lies now with --data-path." in err
    assert not (artifact / NAME).exists()
    assert main(["neighbors", str(artifact), "--json", "--data-path", str(tmp_path / "moved")]) == 0
    known = {one.tobytes() for one in pixels}
    stored = load_file(str(artifact / NAME))["images"]
    assert len(stored) >= 3
    assert all(one.tobytes() in known for one in stored)
    assert main(["neighbors", str(artifact), "--images", "20", "--data-path", str(tmp_path / "moved")]) == 0
    many = ["--data.train_limit", "6", "--overwrite", "--data.path", str(tmp_path / "moved")]
    assert main(["fit", "digits", "--runs", str(tmp_path), "--name", "a", "--json", *small, *data, *many]) == 0
    assert not (artifact / NAME).exists(), "a run that is trained again has other neighbors"
    capsys.readouterr()
    assert main(["neighbors", str(artifact), "--images", "7"]) == 2
    assert "--images is 7, but the training split has 6 images" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere"], 1, "There is no artifact folder nowhere"),
        (["RUNS/vanilla/artifact"], 1, "of family vanilla, which looks no neighbors up"),
        (["RUNS/maxl/artifact"], 1, "of family maxl, which looks no neighbors up"),
        (["RUNS/meta_neighborhoods/artifact", "--images", "0"], 2, "--images is 0; it must be from 1 to 20"),
        (["RUNS/meta_neighborhoods/artifact", "--images", "21"], 2, "--images is 21"),
        (["RUNS/meta_neighborhoods/artifact", "--data-path", "x"], 2, "reads no files"),
    ],
)
def test_an_artifact_that_cannot_have_neighbors_is_refused_in_one_sentence(
    words: list[str], code: int, sentence: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["neighbors", *(word.replace("RUNS", str(runs)) for word in words), "--json"]) == code
    out, err = capsys.readouterr()
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert out == ""


def test_rows_have_no_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data.rows", "60", "--training.epochs", "1", "--meta_neighborhoods.entries", "5"]
    assert main(["fit", "spiral", *words, "--runs", str(tmp_path), "--name", "a", "--json"]) == 0
    capsys.readouterr()
    assert main(["neighbors", str(tmp_path / "a" / "artifact")]) == 1
    assert "holds a model of rows, which have no pictures" in capsys.readouterr().err


def test_a_full_disk_is_a_sentence_and_leaves_the_old_file(
    artifact: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["neighbors", str(artifact), "--json"]) == 0
    before = (artifact / NAME).read_bytes()

    def full(_handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    capsys.readouterr()
    assert main(["neighbors", str(artifact), "--images", "1", "--json"]) == 1
    err = capsys.readouterr().err
    assert "neighbors.safetensors cannot be written: No space left on device" in err
    assert len(err.splitlines()) == 1
    assert (artifact / NAME).read_bytes() == before
    assert [item.name for item in artifact.iterdir() if item.name.startswith(".")] == []
