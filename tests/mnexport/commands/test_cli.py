"""Command line: exit codes, sentences instead of tracebacks, JSON."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mnexport.commands.cli import main


def test_parity_and_place_of_the_model_are_printed(
    runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(runs / "meta_neighborhoods" / "artifact"), str(repository / "mn")]) == 0
    out, err = capsys.readouterr()
    assert "onnxruntime" in out
    assert "published" in out
    assert "checking parity" in err
    assert (repository / "mn" / "1" / "model.onnx").is_file()


def test_a_model_folder_taken_for_a_repository_is_refused_before_any_work(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "img" / "1").mkdir(parents=True)
    (repository / "img" / "config.pbtxt").touch()
    assert main(["no artifact", str(repository / "img" / "1")]) == 2
    err = capsys.readouterr().err
    assert f"for its next version: mnexport ARTIFACT {repository / 'img'};" in err
    assert [item.name for item in (repository / "img" / "1").iterdir()] == []


def test_json_is_all_that_is_printed_where_it_is_asked_for(
    runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(runs / "vanilla" / "artifact"), str(repository / "plain"), "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["form"] == "vanilla"
    assert report["parity"]["comparisons"][0]["tolerance"] == "atol 0.0001, rtol 1e-05 of logits"
    assert err == ""


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nowhere", "{repository}/m"], 1, "no artifact folder nowhere"),
        (["{artifact}", "{repository}/m", "--vanilla", "--form", "explicit"], 2, "--vanilla"),
        (["{artifact}", "{repository}/bad name"], 2, "bad name"),
        (["{artifact}", "{repository}/m", "--atol", "1e-12"], 1, "Nothing was published"),
        (["{artifact}", "/proc/none/m"], 1, "cannot be written"),
        (["{artifact}", "/proc/m"], 1, "cannot be written"),
        (["{artifact}", "{repository}/m", "--atol", "inf"], 2, "finite"),
        (["{artifact}", "{repository}/m", "--rtol", "nan"], 2, "finite"),
        (["{artifact}", "{repository}/m", "--version", "99999999999999999999999"], 2, "is not possible"),
        (["{artifact}", "{repository}/m", "--overwrite"], 2, "add --version N, or leave --overwrite out"),
        (["{vanilla}", "{repository}/m", "--form", "explicit"], 2, "does not adapt"),
        (["{artifact}", "{repository}/m", "--rank", "0"], 2, "--rank is 0"),
        (["{vanilla}", "{repository}/m", "--rank", "3"], 2, "leave out --rank"),
        (["{artifact}", "{repository}/m", "--form", "factored", "--calibration", "train"], 2, "--calibration train is"),
        (["{artifact}", "{repository}/m", "--rank", "8", "--form", "factored"], 2, "--rank is of --form low_rank"),
        (["{artifact}", "{repository}/m", "--rank", "8", "--vanilla"], 2, "nothing to --rank"),
        (
            ["{artifact}", "{repository}/m", "--rank", "501", "--form", "low_rank"],
            2,
            "the 60 entries of its",
        ),
        (
            ["{artifact}", "{repository}/m", "--rank", "1", "--form", "low_rank", "--tolerance", "1e-6"],
            2,
            "leave out --rank",
        ),
    ],
)
def test_errors_are_one_sentence_with_the_right_code(
    words: list[str], code: int, sentence: str, runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts = {"artifact": runs / "meta_neighborhoods" / "artifact", "vanilla": runs / "vanilla" / "artifact"}
    filled = [word.format(**artifacts, repository=repository) for word in words]
    assert main(filled) == code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("mnexport: ")
    assert sentence in last
    assert list(repository.iterdir()) == []


def test_the_rank_that_is_asked_for_is_taken(runs: Path, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = str(runs / "meta_neighborhoods" / "artifact")
    words = ["--form", "low_rank", "--tolerance", "0.5", "--rank", "7", "--json"]
    assert main([artifact, str(repository / "m"), *words]) == 0
    assert json.loads(capsys.readouterr().out)["adaptation"]["rank"] == 7


def test_processes_that_export_at_once_lose_nothing(runs: Path, tmp_path: Path) -> None:
    artifact, target = runs / "meta_neighborhoods" / "artifact", tmp_path / "repository" / "m"
    command = [sys.executable, "-m", "mnexport", str(artifact), str(target), "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([*command, *form], stdout=subprocess.PIPE, text=True, env=environment)
        for form in (("--form", "explicit"), ("--form", "factored"), ("--vanilla",))
    ]
    reports = [json.loads(process.communicate(timeout=240)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert {report["path"] for report in reports} == {str(target / str(number) / "model.onnx") for number in (1, 2, 3)}
    for report in reports:
        assert json.loads(Path(report["path"]).with_name("export.json").read_text())["form"] == report["form"]
    assert [item.name for item in target.parent.iterdir()] == ["m"]


@pytest.mark.parametrize(
    ("number", "message"), [(signal.SIGTERM, "mnexport: terminated."), (signal.SIGINT, "mnexport: interrupted.")]
)
def test_an_export_that_is_stopped_leaves_nothing_behind(
    runs: Path, repository: Path, tmp_path: Path, number: signal.Signals, message: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "mnexport", str(runs / "vanilla" / "artifact"), str(repository / "m")]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # a shell's background jobs ignore SIGINT
    )
    while not list(temporary.glob("mnexport-*")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    # Shells report 130 either way: CPython ends itself by SIGINT where that interrupted the `exec` of a dataclass.
    assert process.returncode in {128 + number, *([-number] if number == signal.SIGINT else [])}
    assert err.splitlines()[-1] == message
    assert "Traceback" not in err
    assert [item for item in temporary.iterdir() if item.is_dir()] == []
    assert list(repository.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["a"], ["a", "b", "--form", "none"], ["a", "b", "--opset", "17"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
