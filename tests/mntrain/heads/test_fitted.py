"""The head that a family is trained as: its options, its artifact, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main
from mntrain.errors import ConfigError
from mntrain.heads.methods.meta_neighborhoods import separate_words


def test_options_of_the_family_reach_the_head(
    tmp_path: Path, write_features: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store = write_features(tmp_path / "tail")
    words = ["--meta_neighborhoods.entries", "24", "--training.epochs=3", "--head.few", "10"]
    command = ["head", "meta-neighborhoods", str(store), "--runs", str(tmp_path / "runs"), "--name", "a"]
    assert main([*command, *words, "--json"]) == 0
    folder = tmp_path / "runs" / "a-meta-neighborhoods"
    config = load_artifact(folder / "artifact").config
    assert (config.experiment.model.entries, config.experiment.training.epochs) == (24, 3)
    assert config.experiment.name == "a-meta-neighborhoods"
    assert config.network is not None
    assert config.head is not None
    assert config.head["method"] == "meta-neighborhoods"
    record = json.loads((folder / "head.json").read_text())
    capsys.readouterr()
    assert main(["evaluate", str(folder / "artifact"), "--json"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert accuracy == pytest.approx(record["scores"]["test"]["all"]["accuracy"])


def test_words_are_parted_with_their_values() -> None:
    words = ["--head.few", "3", "--mn.entries", "9", "--training.epochs=4", "--head.many=50"]
    own, fitted = separate_words(words)
    assert own == ("--head.few", "3", "--head.many=50")
    assert fitted == ("--mn.entries", "9", "--training.epochs=4")


def test_unknown_fields_and_values_are_told_before_anything_is_made() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        separate_words(["--training.epoch", "3"])
    with pytest.raises(ConfigError, match="entries is 0"):
        separate_words(["--meta_neighborhoods.entries", "0"])


def test_fields_without_the_method_are_refused(
    tmp_path: Path, write_features: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store = write_features(tmp_path / "tail")
    assert main(["head", "joint", str(store), "--runs", str(tmp_path), "--training.epochs", "3"]) == 2
    assert "meta-neighborhoods" in capsys.readouterr().err
