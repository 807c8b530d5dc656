"""The command line, in process: exit codes, sentences instead of tracebacks, JSON."""

import json
from pathlib import Path

import pytest

from mnexport.cli import main


def test_it_prints_parity_and_where_the_model_is(
    runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(runs / "meta_neighborhoods" / "artifact"), str(repository / "mn")]) == 0
    out, err = capsys.readouterr()
    assert "onnxruntime" in out
    assert "published" in out
    assert "checking parity" in err
    assert (repository / "mn" / "1" / "model.onnx").is_file()


def test_json(runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs / "vanilla" / "artifact"), str(repository / "plain"), "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["form"] == "vanilla"
    assert report["parity"]["atol"] == 1e-4
    assert err == ""


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere", "{repository}/m"], 1, "no artifact folder nowhere"),
        (["{artifact}", "{repository}/m", "--vanilla", "--form", "explicit"], 2, "--vanilla"),
        (["{artifact}", "{repository}/bad name"], 2, "bad name"),
        (["{artifact}", "{repository}/m", "--atol", "1e-12"], 1, "Nothing was published"),
        (["{artifact}", "/proc/none/m"], 1, "cannot be written"),
    ],
)
def test_errors_are_one_sentence_with_the_right_code(
    words: list[str], code: int, sentence: str, runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [word.format(artifact=runs / "meta_neighborhoods" / "artifact", repository=repository) for word in words]
    assert main(filled) == code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("mnexport: ")
    assert sentence in last
    assert list(repository.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["a"], ["a", "b", "--form", "none"], ["a", "b", "--opset", "17"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
