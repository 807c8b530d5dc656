"""One file of images: some classes are trained on, and episodes are of others."""

import json
from pathlib import Path
from typing import Any

import pytest

from mntrain.artifact import load_artifact
from mntrain.commands.cli import main

EPISODES = ["--ways", "2", "--queries", "4", "--episodes", "3", "--method", "nearest,protonet"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--json"]) in (1, 2)
    return capsys.readouterr().err


def test_episodes_are_of_the_classes_that_are_given(
    some_classes_path: Path, one_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fewshot", str(some_classes_path), "--data.path", str(one_set), *EPISODES]
    trained = [*words, "--data.classes", "*/c,*/d", "--train", "--episodic.episodes", "2"]
    found = printed(capsys, *trained)
    assert (found["classes"], found["images"], found["trained_classes"]) == (2, 48, [])
    assert found["methods"]["protonet"]["training_seconds"] is not None, "on the classes of the run, read anew"
    found = printed(capsys, *words)
    assert (found["classes"], found["trained_classes"]) == (4, ["old/a", "old/b"]), "the run's choice is not carried"
    wrong = refusal(capsys, *words, "--data.classes", "mew/*")
    assert "data.classes has 'mew/*', which matches none of the 4 classes of" in wrong
    assert "did you mean 'new/c'?" in wrong
    assert "--ways is 2, but the images are of 1 class(es)" in refusal(capsys, *words, "--data.classes", "new/c")


def test_data_of_the_run_keeps_its_classes(
    some_classes_path: Path, one_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_artifact(some_classes_path).config
    assert (config.labels, config.experiment.data.classes) == (("old/a", "old/b"), ("!new/*",))
    words = ["evaluate", str(some_classes_path)]
    found = printed(capsys, *words, "--split", "all")
    assert (found["examples"], list(found["classes"])) == (48, ["old/a", "old/b"])
    assert "'new/c'" in refusal(capsys, *words, "--data.path", str(one_set))
    found = printed(capsys, *words, "--data.path", str(one_set), "--data.classes", "*/a", "--output", str(tmp_path))
    assert found["examples"] == 24
    numbers = [line.split(",")[0] for line in (tmp_path / "predictions.csv").read_text().splitlines()[1:]]
    assert numbers == [f"image {number}" for number in range(24)], "folders were written in the order of their names"


def test_a_run_goes_on_with_its_classes_alone(some_classes_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = some_classes_path.parent
    again = ["fit", str(run / "config.yaml"), "--runs", str(run.parent), "--name", run.name, "--resume"]
    assert "data.classes" in refusal(capsys, *again, "--data.classes", "new/*")
    assert main([*again, "--training.epochs", "3", "--json"]) == 0
    assert load_artifact(some_classes_path).config.labels == ("old/a", "old/b")
