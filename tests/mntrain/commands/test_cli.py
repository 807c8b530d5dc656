"""The command line, in process: exit codes, sentences instead of tracebacks, JSON."""

import json
from pathlib import Path

import pytest

from mntrain.commands.cli import main


def test_evaluate_gives_the_accuracy_of_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runs", str(tmp_path), "--name", "a", "--training.epochs", "1", "--backbone.width", "0.25"]
    assert main(["fit", "digits", *words, "--family", "vanilla", "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(tmp_path / "a" / "artifact"), "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["accuracy"] == pytest.approx(fitted["test"]["accuracy"])
    assert evaluated["examples"] == 359
    parts = []
    for split in ("train", "validation", "test", "all"):
        assert main(["evaluate", str(tmp_path / "a" / "artifact"), "--split", split, "--json"]) == 0
        parts.append(json.loads(capsys.readouterr().out))
    *parts, whole = parts
    assert whole["examples"] == sum(part["examples"] for part in parts) == 1797
    right = sum(part["examples"] * part["accuracy"] for part in parts)
    assert whole["accuracy"] == pytest.approx(right / whole["examples"])
    assert main(["evaluate", str(tmp_path / "a" / "artifact"), "--split", "validation"]) == 0
    assert "validation accuracy" in capsys.readouterr().out


def test_progress_is_plain_lines_away_from_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runs", str(tmp_path), "--training.epochs", "2", "--data.train_limit", "128", "--backbone.width", "0.25"]
    assert main(["fit", "digits", *words]) == 0
    out, err = capsys.readouterr()
    assert [line[:11] for line in err.splitlines() if line.startswith("epoch")] == ["epoch   1/2", "epoch   2/2"]
    assert "before adaptation" in out
    assert "mnexport" in out


def test_fit_of_rows_ends_with_the_command_that_exports_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data.rows", "60", "--training.epochs", "1", "--meta_neighborhoods.entries", "5", "--name", "a"]
    assert main(["fit", "spiral", *words, "--runs", str(tmp_path)]) == 0
    artifact = tmp_path / "a" / "artifact"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"artifact {artifact}; export it: mnexport {artifact} repository/a"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["fit", "digitz"], 2, "no recipe 'digitz'"),
        (["fit", "digits", "--training.epochs", "0"], 2, "training.epochs is 0"),
        (["fit", "digits", "--resume", "--overwrite"], 2, "exclude each other"),
        (["fit", "digits", "--data.source", "idx", "--data.path", "nowhere"], 1, "nowhere"),
        (["fit", "digits", "--training.accelerator", "warp"], 2, "warp"),
        (["evaluate", "nowhere"], 1, "no artifact folder nowhere"),
        (["evaluate", "nowhere", "--batch-size", "0"], 2, "--batch-size is 0"),
    ],
)
def test_errors_are_one_sentence_with_the_right_code(
    words: list[str], code: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--runs", str(tmp_path)] if words[0] == "fit" else []
    assert main([*words, *where]) == code
    err = capsys.readouterr().err
    assert err.startswith("mntrain: ")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["fly"], ["fit"], ["evaluate", "a", "--split", "none"], ["recipes", "b"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2


def test_recipes_and_fields_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    assert "fashion-mnist" in capsys.readouterr().out.split()
    assert main(["fit", "digits", "--fields"]) == 0
    assert "--training.epochs" in capsys.readouterr().out
