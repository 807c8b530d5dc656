"""Test `mntrain data`: JSON of every source, what `fit` would refuse, leaks of images and rows, folded tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from mntrain.artifact import read_config
from mntrain.artifact_config import ArtifactConfig
from mntrain.commands.cli import main
from mntrain.data.registry import SOURCES
from mntrain.feature_store.store import FeatureSplit
from mntrain.feature_store.writing import StoreContent, write_store
from mntrain.networks.record import NetworkRecord

Read = Callable[..., dict[str, Any]]
SMALL = ["--training.epochs", "1", "--backbone.width", "0.25", "--meta_neighborhoods.entries", "20"]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    """The JSON of a call that succeeds; it stands on stdout alone."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    def call(*words: str) -> dict[str, Any]:
        assert main(["data", *words, "--json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        found = json.loads(out, parse_constant=refuse)
        assert isinstance(found, dict)
        return found

    return call


def write_idx(folder: Path) -> Path:
    """Write 30 training and 12 test images of three classes; five test images are training images."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (37, 8, 8), dtype=np.uint8)
    folder.mkdir()
    for prefix, chosen in (("train", range(30)), ("t10k", [*range(30, 37), 0, 0, 1, 2, 4])):
        labels = np.array([number % 3 for number in chosen], np.uint8)
        for name, values in ((f"{prefix}-images-idx3-ubyte", images[chosen]), (f"{prefix}-labels-idx1-ubyte", labels)):
            header = bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes()
            (folder / name).write_bytes(header + values.tobytes())
    (folder / "notes.txt").write_text("mine")
    return folder


def write_folders(folder: Path) -> Path:
    """Write class folders of 12 pictures each."""
    random = np.random.default_rng(1)
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            (folder / split / name).mkdir(parents=True)
            for number in range(12):
                pixels = random.integers(0, 256, (8, 8), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    return folder


def write_rows(file: Path) -> Path:
    """Write 100 rows, of which 20 occur twice."""
    values = np.random.default_rng(2).normal(size=(80, 3)).round(3)
    rows = [*values, *values[:20]]
    file.write_text("a,b,y\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return file


def write_lists(folder: Path, pictures: Path) -> Path:
    """Write lists of the pictures, as those of ImageNet-LT."""
    folder.mkdir()
    files = sorted(pictures.rglob("*.png"))
    names = sorted({file.parent.name for file in files})
    for split in ("train", "test"):
        lines = [
            f"{file.relative_to(pictures)} {names.index(file.parent.name)}"
            for file in files
            if file.relative_to(pictures).parts[0] == split
        ]
        (folder / f"Mine_LT_{split}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_features(folder: Path) -> Path:
    """Write a store of 30, 10 and 10 rows."""
    random = np.random.default_rng(3)
    splits = {
        name: FeatureSplit(features=random.normal(size=(rows, 4)).astype(np.float32), labels=np.arange(rows) % 2)
        for name, rows in (("train", 30), ("validation", 10), ("test", 10))
    }
    network = NetworkRecord(kind="arrays", name="made up", sha256="0" * 64, features=4, pixels=None)
    write_store(folder, StoreContent(network=network, label_names=("a", "b"), splits=splits))
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Recipe and overrides for every source."""
    folder = tmp_path_factory.mktemp("sources")
    idx = str(write_idx(folder / "idx"))
    pictures, rows = str(write_folders(folder / "pictures")), str(write_rows(folder / "rows.csv"))
    lists, store = str(write_lists(folder / "lists", Path(pictures))), str(write_features(folder / "store"))
    where = {"idx": idx, "fashion-mnist": idx, "table": rows, "features": store}
    recipes = {"spiral": "spiral", "table": "uci", "features": "features"}
    return {
        name: [
            recipes.get(name, "digits"),
            "--data.source",
            name,
            *([] if source.path == "none" else ["--data.path", where.get(name, pictures)]),
            *(["--data.lists", lists] if name == "image-lists" else []),
        ]
        for name, source in SOURCES.items()
    }


@pytest.mark.parametrize("source", SOURCES)
def test_the_json_of_every_source_counts_classes_and_splits(
    source: str, sources: dict[str, list[str]], read: Read
) -> None:
    found = read(*sources[source])
    assert found["source"] == source
    assert set(found["splits"]) == {"train", "validation", "test"}
    for split in found["splits"].values():
        assert isinstance(split["count"], int)
        assert list(split["classes"]) == found["classes"]
        if found["classes"]:
            assert sum(split["classes"].values()) == split["count"]
    for entry in found["ignored"]:
        assert entry["reason"]
        assert 0 < len(entry["examples"]) <= entry["count"] or not entry["examples"]
    assert (found["noun"] == "row") is SOURCES[source].rows
    steps = found["training"]
    assert steps["steps_per_epoch"] >= 1
    assert steps["batch_size"] <= found["splits"]["train"]["count"]


def test_classes_that_differ_by_capitals_alone_are_warned_of(tmp_path: Path, read: Read) -> None:
    letters, animals = write_folders(tmp_path / "letters"), write_folders(tmp_path / "animals")
    for folder, first, second in ((letters, "A", "a"), (animals, "Cat", "caT")):
        for split in ("train", "test"):
            (folder / split / "cat").rename(folder / split / first)
            (folder / split / "dog").rename(folder / split / second)
    warned = [
        [
            text
            for text in read("digits", "--data.source", "images", "--data.path", str(folder))["warnings"]
            if "cap" in text
        ]
        for folder in (letters, animals)
    ]
    assert warned[0] == []
    assert [text.split(" and are")[0] for text in warned[1]] == ["The classes 'Cat', 'caT' differ by capitals alone,"]


def test_the_figures_are_those_of_the_data(sources: dict[str, list[str]], read: Read) -> None:
    digits = read("digits")
    assert digits["classes"] == [str(number) for number in range(10)]
    assert {name: split["count"] for name, split in digits["splits"].items()} == {
        "train": 1294,
        "validation": 144,
        "test": 359,
    }
    assert digits["splits"]["train"]["classes"]["8"] == 125
    assert digits["images"] == {
        "sizes": {"8x8": 1797},
        "colors": {"L": 1797},
        "pixels": "8x8 as found; grey, 1 channel",
    }
    assert digits["input"] == [1, 8, 8]
    idx = read(*sources["idx"], "--data.image_size", "16", "--data.color", "RGB", "--data.train_limit", "20")
    assert [entry["count"] for entry in idx["ignored"]] == [1, 7]
    assert idx["ignored"][0]["examples"] == ["notes.txt"]
    assert idx["images"]["sizes"] == {"8x8": 42}
    assert idx["images"]["pixels"] == "42 stretched to 16x16; RGB, 3 channels"
    assert idx["input"] == [3, 16, 16]
    rows = read(*sources["table"])
    assert {column["name"]: (column["role"], column["kind"], column["missing"]) for column in rows["columns"]} == {
        "a": ("feature", "number", 0),
        "b": ("feature", "number", 0),
        "y": ("target", "value", 0),
    }
    assert all(column["range"] == sorted(column["range"]) for column in rows["columns"])


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["digitz"], 2, "no recipe 'digitz'"),
        (["digits", "--data.leaks", "never"], 2, "data.leaks"),
        (["digits", "--data.source", "idx", "--data.path", "nowhere"], 1, "nowhere"),
        (["digits", "--data.train_limit", "1798"], 2, "train_limit is 1798"),
        (["spiral", "--family", "vanilla", "--backbone.name", "resnet"], 2, "mlp"),
        (["spiral", "--family", "vanilla", "--backbone.ifilm", "true"], 2, "no normalisation layer"),
        (["digits", "--data.image_size", "3", "--backbone.name", "densenet40bc"], 2, "at least 4x4 pixels"),
        (["digits", "--training.devices", "256", "--training.batch_size", "512"], 2, "training.devices 256"),
    ],
)
def test_what_fit_refuses_is_refused_with_the_same_sentence_and_code(
    words: list[str], code: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *words, "--runs", str(tmp_path)]) == code
    expected = capsys.readouterr().err
    assert main(["data", *words, "--json"]) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", expected)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("source", "noun", "shared"), [("idx", "image", 5), ("table", "row", None)])
def test_leaks_are_told_refused_or_counted_in_silence(
    source: str,
    noun: str,
    shared: int | None,
    sources: dict[str, list[str]],
    read: Read,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = read(*sources[source])
    across = told["duplicates"]["across"]
    assert sum(entry["count"] for entry in across) > 0
    if shared is not None:  # a test image equal to a training one, or to one that was held out of them
        assert sum(entry["count"] for entry in across if entry["splits"][1] == "test") == shared
    assert f"also in train ({'test' if source == 'idx' else noun}" in told["warnings"][0]
    assert main(["data", *sources[source]]) == 0
    assert f"warning: {told['warnings'][0]}" in capsys.readouterr().out
    allowed = read(*sources[source], "--data.leaks", "allow")
    assert allowed["duplicates"] == told["duplicates"]
    assert allowed["warnings"] == told["warnings"][1:]
    assert main(["data", *sources[source], "--data.leaks", "refuse"]) == 1
    err = capsys.readouterr().err
    for entry in across:
        assert f"{entry['count']} {entry['splits'][1]} {noun}" in err
        assert f"{entry['examples'][0][1]} = {entry['examples'][0][0]}" in err


def test_many_classes_and_columns_are_folded_and_names_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    table = pa.table({f"\x1b[31mcolumn {number}": random.normal(size=240) for number in range(60)})
    labels = [f"kind\x07{number % 40:02}" for number in range(240)]
    pq.write_table(table.append_column("y", pa.array(labels)), tmp_path / "wide.parquet")
    assert main(["data", "spiral", "--data.source", "table", "--data.path", str(tmp_path / "wide.parquet")]) == 0
    out = capsys.readouterr().out
    assert "20 more classes" in out
    assert "37 more columns are not shown" in out
    assert "\x1b" not in out
    assert "\\x1b[31mcolumn 0" in out
    assert "kind\\x0700" in out
    assert len(out.splitlines()) < 90


def test_fit_prints_the_summary_and_keeps_it(
    sources: dict[str, list[str]], read: Read, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*sources["idx"], *SMALL]
    expected = read(*words)
    where = ["--runs", str(tmp_path), "--name", "told"]
    assert main(["fit", *words, *where]) == 0
    err = capsys.readouterr().err.splitlines()
    lines = err[: err.index(next(line for line in err if line.startswith(("epoch", "dictionary"))))]
    assert 5 <= len(lines) <= 12
    assert [line.split()[0] for line in lines[:3]] == ["data", "layout", "splits"]
    assert [line for line in lines if line.startswith("warning: ")] == lines[-2:]
    assert lines[-2:] == [f"warning: {sentence}" for sentence in expected["warnings"]]
    assert "5 test images are also in train" in lines[-2]
    assert "1 optimizer steps" in lines[-1]
    assert json.loads((tmp_path / "told" / "data.json").read_text()) == expected
    config = read_config(tmp_path / "told" / "artifact")
    assert config.data == expected
    values = config.to_dict()
    assert values.pop("data") == expected
    # Artifacts of earlier versions have none.
    assert ArtifactConfig.from_dict(values).to_dict() == values
    assert main(["fit", *words, "--runs", str(tmp_path), "--name", "quiet", "--json"]) == 0
    assert capsys.readouterr().err == ""
