"""Several views of an image are rows of their own, and one example of its class."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mntrain.commands.cli import main
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data
from mntrain.data.summary.summarize import summarize
from mntrain.feature_store.store import FeatureSplit
from mntrain.feature_store.writing import StoreContent, write_store
from mntrain.networks.record import NetworkRecord

IMAGES = (120, 30, 12)
VIEWS = 2


def write(path: Path) -> Path:
    generator = np.random.default_rng(0)

    def rows(counts: tuple[int, ...], views: int = 1) -> FeatureSplit:
        labels = np.tile(np.repeat(np.arange(len(counts)), counts), views)
        features = generator.normal(size=(len(labels), 4)).astype(np.float32) + labels[:, None].astype(np.float32)
        return FeatureSplit(features=features, labels=labels.astype(np.int64))

    network = NetworkRecord(kind="arrays", name="made up", sha256="0" * 64, features=4, pixels=None)
    even = (6, 6, 6)
    splits = {"train": rows(IMAGES, VIEWS), "validation": rows(even), "test": rows(even)}
    write_store(path, StoreContent(network=network, label_names=("a", "b", "c"), splits=splits, crops=VIEWS))
    return path


def test_classes_are_counted_by_images(tmp_path: Path) -> None:
    config = DataConfig(source="features", path=str(write(tmp_path / "store")))
    summary = summarize(load_data(config), config)
    assert summary["splits"]["train"]["count"] == VIEWS * sum(IMAGES)
    assert tuple(summary["splits"]["train"]["classes"].values()) == IMAGES
    assert tuple(summary["splits"]["test"]["classes"].values()) == (6, 6, 6)


def test_groups_of_classes_are_those_of_images_in_training_and_evaluation(tmp_path: Path) -> None:
    words = ["--data.path", str(write(tmp_path / "store")), "--family", "vanilla", "--training.epochs", "1"]
    assert main(["fit", "features", *words, "--runs", str(tmp_path / "runs"), "--name", "run"]) == 0
    metrics = json.loads((tmp_path / "runs" / "run" / "metrics.json").read_text())
    assert {f"accuracy_{group}" for group in ("few", "medium", "many")} <= metrics["test"].keys()
