"""``mntrain.features`` does what the command does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mntrain
from mntrain.errors import ConfigError
from mntrain.networks.options import NetworkOptions


def test_arrays_are_written_as_by_the_command(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    np.savez(tmp_path / "a.npz", features=features, labels=np.arange(60) % 3)
    source = f"arrays:{tmp_path / 'a.npz'}"
    store = mntrain.features(source, tmp_path / "store", data={"test_fraction": 0.5})
    assert (store.features, len(store.test)) == (5, 30)
    with pytest.raises(ConfigError, match="--overwrite"):
        mntrain.features(source, tmp_path / "store")
    assert len(mntrain.features(source, tmp_path / "store", overwrite=True).test) != 30
    with pytest.raises(ConfigError, match="--crops and --augmentation"):
        mntrain.features(source, tmp_path / "other", crops=2)
    with pytest.raises(ConfigError, match="Options of a network"):
        mntrain.features(NetworkOptions(source=source, scale=255), tmp_path / "other")


def test_several_views_take_an_augmentation_a_batch_and_a_seed(dot_artifact: Path, tmp_path: Path) -> None:
    def train(name: str, **changes: int) -> np.ndarray:
        options = {"crops": 2, "batch": 50, "seed": 1} | changes
        small = {"train_limit": 100}
        store = mntrain.features(dot_artifact, tmp_path / name, data=small, augmentation={"flip": True}, **options)
        assert store.data["key"]["views"]["augmentation"]["flip"] is True
        assert store.data["key"]["views"]["batch"] == options["batch"]
        return np.array(store.train.features)

    one = train("one")
    assert len(one) == 200
    np.testing.assert_array_equal(train("again"), one)
    assert not np.array_equal(train("other", seed=2), one)
    train("larger", batch=60)
    with pytest.raises(ConfigError, match="in Python augmentation="):
        mntrain.features(dot_artifact, tmp_path / "none", augmentation={"crop_padding": 0}, crops=2)
