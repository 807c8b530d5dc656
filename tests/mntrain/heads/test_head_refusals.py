"""`mntrain head`: what is refused before any head is made, and what is told of features."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mntrain.commands.cli import main
from mntrain.feature_store.store import FeatureStore

WriteFeatures = Callable[..., Path]
QUICK = ["--head.least_steps", "40", "--head.epochs", "1", "--head.learning_rate", "0.1", "--head.neighbors", "3"]
"""Settings that take no time."""


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--alpha.reduced", "100"], ("alpha.reduced is 100", "have 6 principal components", "lower it")),
        (["--alpha.source", "many"], ("alpha.neighbors is 5", "there are 2 classes")),
        (["--alpha.source", "all", "--alpha.neighbors", "8"], ("alpha.neighbors is 8", "there are 7 classes")),
        (
            ["--alpha.sweep", "neighbors", "--head.many", "130", "--alpha.source", "many", "--alpha.neighbors", "1"],
            ("A sweep over 2, 5, 10 neighbors", "there are 1"),
        ),
        (["--alpha.optimizer", "adamw", "--alpha.hidden", "9000000"], ("would keep", "alpha.optimizer to sgd")),
    ],
)
def test_alpha_net_is_refused_before_the_heads_before_it_are_made(
    words: list[str], parts: tuple[str, ...], store: FeatureStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    assert main(["head", "joint,crt,tau-alpha-crt", str(store.path), "--runs", str(runs), *words]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told
    assert not runs.exists()


def test_the_network_s_own_layer_is_refused_before_a_head_is_compared_with_it(
    tmp_path: Path, write_features: WriteFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write_features(tmp_path / "bare", own=False)
    assert main(["head", "ncm,crt", str(store), "--head.base", "network", "--runs", str(tmp_path / "runs")]) == 2
    assert "has no last layer of its network" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def far(path: Path, write_features: WriteFeatures, shift: float) -> Path:
    """Write a store whose features have lost their zero."""
    store = write_features(path)
    for part in ("train", "validation", "test"):
        rows = np.load(store / part / "features.npy")
        rows[:, 0] = 2
        np.save(store / part / "features.npy", rows + np.float32(shift))
    return store


def test_features_that_are_left_out_or_far_from_0_are_told(
    tmp_path: Path, write_features: WriteFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["head", "logistic", str(far(tmp_path / "far", write_features, 1e7)), "--runs", str(tmp_path / "runs")]
    assert main(words) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "1 of 6 features have one value in all training rows, or deviate by less than 1e-35, and are left out" in told
    )
    assert "validation rows have another answer in float64" in told
    record = json.loads((tmp_path / "runs" / "far-logistic" / "head.json").read_text())
    assert record["store"]["left_out"] == 1
    assert record["scores"]["test"]["all"]["accuracy"] > 0.5
    assert main(["report", str(tmp_path / "runs" / "far-logistic")]) == 0
    assert "another answer in float64" in (tmp_path / "runs" / "far-logistic" / "report.html").read_text()


def test_unusable_stores_and_wrong_words_are_told(
    tmp_path: Path, store: FeatureStore, write_features: WriteFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = write_features(tmp_path / "empty", counts=(30, 20, 0, 10))
    damaged = write_features(tmp_path / "damaged")
    rows = np.load(damaged / "test" / "features.npy")
    rows[3, 2] = np.inf
    np.save(damaged / "test" / "features.npy", rows)
    even = write_features(tmp_path / "even", counts=(30, 30, 30))
    alike = write_features(tmp_path / "alike")
    np.save(alike / "train" / "features.npy", np.ones_like(np.load(alike / "train" / "features.npy")))
    cases = [
        (["bias", str(store.path), "--head.constant", "1e39"], 2, "head.constant is 1e+39", "from -1000 to 1000"),
        (["fixed", str(store.path), "--head.coefficient", "1e39"], 2, "head.coefficient", "from -1000 to 1000"),
        (["ncm,alpha", str(alike)], 1, "training rows of", "one value in every one of 6 features"),
        (["crt", str(empty)], 1, "1 class(es)", "'class 2'"),
        (["crt", str(damaged)], 1, "test rows of", "row 3"),
        (["bias", str(even)], 2, "fewer than 20", "Raise --head.few"),
        (["joint,fixed", str(store.path), "--head.neighbors", "6"], 2, "takes 6 base class", "Lower"),
        (["crt,alpha-crt", str(store.path), "--alpha.neighbors", "6"], 2, "takes 6 base", "--alpha.neighbors"),
        (["bias", str(store.path), "--head.feww", "3"], 2, "--head.few?", "no setting"),
        (["ctr", str(store.path)], 2, "Did you mean 'crt'", "choose from"),
        (["crt", str(tmp_path / "none")], 1, "no feature store", "mntrain features"),
        (["crt", str(even), "--name", "a b"], 2, "name is 'a b-crt'", "letters"),
        (["crt", str(even), str(even)], 2, "give each of them another name", "even"),
        (["crt", str(even), "--baseline", "joint", *QUICK], 2, "not among the methods crt", "--baseline"),
    ]
    for words, code, *parts in cases:
        assert main(["head", *words, "--runs", str(tmp_path / "runs")]) == code
        told = capsys.readouterr().err
        for part in parts:
            assert part in told
    assert not (tmp_path / "runs").exists()


def test_stores_of_other_classes_are_refused_before_anything_is_made(
    tmp_path: Path, store: FeatureStore, write_features: WriteFeatures, capsys: pytest.CaptureFixture[str]
) -> None:
    more = write_features(tmp_path / "more", counts=(150, 120, 60, 40, 30, 12, 8, 5, 5))
    assert main(["head", "ncm", str(store.path), str(more), "--runs", str(tmp_path / "runs")]) == 2
    assert "has other classes than" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_copy_of_a_store_is_no_second_one(
    tmp_path: Path, store: FeatureStore, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = shutil.copytree(store.path, tmp_path / "copied")
    assert main(["head", "ncm", str(store.path), str(copied), "--runs", str(tmp_path / "runs")]) == 2
    assert "copied has the same features and labels as" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
