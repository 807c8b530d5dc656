"""Feature stores as data of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main
from mntrain.data.config import DataConfig
from mntrain.data.images import ImageSet
from mntrain.data.loading import load_data
from mntrain.data.tables import TableData
from mntrain.errors import ConfigError, DataError
from mntrain.feature_store.store import FeatureSplit
from mntrain.feature_store.writing import StoreContent, write_store
from mntrain.networks.record import NetworkRecord, PixelRule

FEATURES = 6
PIXELS = PixelRule(channels=1, height=4, width=4, mean=(0.5,), std=(0.5,))


def write(path: Path, *, seed: int = 0, sha256: str = "0" * 64, crops: int = 1, images: bool = True) -> Path:
    """Write three classes of clouds, with the first 20 test rows as samples."""
    random = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(3, FEATURES)) * 4

    def split(count: int) -> FeatureSplit:
        labels = np.arange(count, dtype=np.int64) % 3
        rows = centers[labels] + random.normal(size=(count, FEATURES))
        return FeatureSplit(features=rows.astype(np.float32), labels=labels)

    splits = {"train": split(120), "validation": split(30), "test": split(60)}
    samples = ImageSet(
        images=random.integers(0, 256, (20, 1, 4, 4)).astype(np.uint8), labels=splits["test"].labels[:20].copy()
    )
    network = NetworkRecord(
        kind="artifact" if images else "arrays",
        name="net",
        sha256=sha256,
        features=FEATURES,
        pixels=PIXELS if images else None,
    )
    content = StoreContent(
        network=network,
        label_names=("a", "b", "c"),
        splits=splits,
        crops=crops,
        samples=samples if images else None,
        sample_features=splits["test"].features[:20].copy() if images else None,
    )
    write_store(path, content)
    return path


def load(path: Path, **fields: object) -> TableData:
    data = load_data(DataConfig(source="features", path=str(path), **fields))  # type: ignore[arg-type]
    assert isinstance(data, TableData)
    return data


def test_rows_stay_on_disk_and_splits_are_the_stores(tmp_path: Path) -> None:
    data = load(write(tmp_path / "store"))
    assert data.split.counts == {"train": 120, "validation": 30, "test": 60}
    assert data.label_names == ("a", "b", "c")
    assert data.feature_names[-1] == "feature_5"
    for part in (data.train, data.validation, data.test):
        assert isinstance(part.inputs, np.memmap)
    assert data.origin is not None
    assert data.origin.network.name == "net"


def test_views_of_an_image_are_rows(tmp_path: Path) -> None:
    data = load(write(tmp_path / "store", crops=2))
    assert len(data.train) == 120
    assert "2 views" in data.account.layout


def test_a_limit_draws_among_the_rows(tmp_path: Path) -> None:
    assert len(load(write(tmp_path / "store"), train_limit=30).train) == 30


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    path = write(tmp_path / "store")
    rows = np.load(path / "test" / "features.npy")
    rows[3, 2] = value
    np.save(path / "test" / "features.npy", rows)
    with pytest.raises(DataError, match="finite"):
        load(path)


def test_other_folders_and_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mntrain features"):
        load(tmp_path)
    with pytest.raises(ConfigError, match=r"data\.classes"):
        load(write(tmp_path / "store"), classes="a")


def test_samples_of_another_store_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "store")
    record = json.loads((path / "store.json").read_text())
    record["label_names"] = ["a"]
    (path / "store.json").write_text(json.dumps(record))
    for split in ("train", "validation", "test"):
        labels = np.load(path / split / "labels.npy")
        np.save(path / split / "labels.npy", np.zeros_like(labels))
    with pytest.raises(DataError, match="not of one store"):
        load(path)


@pytest.mark.parametrize("family", ["mn", "vanilla"])
def test_a_trained_head_is_an_artifact_that_can_be_grafted(
    tmp_path: Path, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write(tmp_path / "store")
    words = ["--meta_neighborhoods.entries", "12"] if family == "mn" else ["--training.learning_rate", "0.1"]
    command = ["fit", "features", "--data.path", str(store), "--family", family, "--runs", str(tmp_path), "--name", "a"]
    assert main([*command, "--training.epochs", "8", "--training.batch_size", "32", "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["test"]["accuracy"] > 0.9
    folder = tmp_path / "a" / "artifact"
    artifact = load_artifact(folder)
    assert artifact.config.network is not None
    assert artifact.config.network.name == "net"
    kept = load_file(str(store / "samples.safetensors"))
    np.testing.assert_array_equal(load_file(str(folder / "network_images.safetensors"))["images"], kept["images"])
    np.testing.assert_array_equal(artifact.samples.inputs, kept["features"])
    np.testing.assert_array_equal(artifact.samples.targets, kept["labels"])
    assert main(["evaluate", str(folder), "--json"]) == 0
    other = write(tmp_path / "other", seed=1)
    assert main(["evaluate", str(folder), "--data.path", str(other), "--split", "test", "--json"]) == 0
    strange = write(tmp_path / "strange", seed=1, sha256="1" * 64)
    assert main(["evaluate", str(folder), "--data.path", str(strange), "--json"]) == 1
    assert "of the network net" in capsys.readouterr().err


def test_without_images_samples_are_test_rows(tmp_path: Path) -> None:
    data = load(write(tmp_path / "store", images=False))
    assert data.origin is not None
    assert data.origin.samples is None
