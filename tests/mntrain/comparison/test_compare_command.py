"""`mntrain compare`, with real runs of the smallest kind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mntrain.commands.cli import main
from mntrain.training.run_folder import FitOptions, RunFolder

SMALL = ["--training.epochs", "1", "--backbone.width", "0.1", "--meta_neighborhoods.entries", "8"]


def test_failed_runs_are_named_broken_off_ones_go_on_and_finished_ones_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "digits", "--variants", "vanilla", "--seeds", "0", "--runs", str(tmp_path), *SMALL]
    # Too many images are asked for, which only reading the data can tell.
    broken = ["--variant", "broken=--family vanilla --data.train_limit 100000"]
    assert main([*words, *broken, "--jobs", "2"]) == 1
    out, err = capsys.readouterr()
    assert "broken, seed 0 failed: exit code 2: data.train_limit is 100000" in out
    assert "digits-vanilla-seed0 is done" in err
    assert [line for line in err.splitlines() if line.startswith("data ")] == [
        "data       1,797 images of 10 classes from scikit-learn"
    ]
    run, folder = tmp_path / "digits-vanilla-seed0", tmp_path / "compare-digits"
    assert "epoch   1/1" in (folder / "logs" / f"{run.name}.log").read_text()
    # As if it had been broken off after its last epoch.
    whole = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").unlink()
    assert main([*words, "--json"]) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    assert "epoch   1/1" not in (folder / "logs" / f"{run.name}.log").read_text()
    assert json.loads((run / "metrics.json").read_text())["test"] == whole["test"]
    first = (run / "metrics.json").stat().st_mtime_ns
    assert main([*words, "--json"]) == 0
    assert capsys.readouterr().out == printed
    assert json.loads(printed) == json.loads((folder / "compare.json").read_text())
    assert (folder / "compare.svg").read_text().startswith("<?xml")
    assert "| vanilla |" in (folder / "compare.md").read_text()
    assert (run / "metrics.json").stat().st_mtime_ns == first


def test_a_signal_that_ends_a_comparison_ends_its_trainings(tmp_path: Path) -> None:
    words = ["compare", "digits", "--variants", "vanilla", "--seeds", "0", "--runs", str(tmp_path)]
    command = [sys.executable, "-m", "mntrain", *words, "--training.epochs", "1000"]
    run = tmp_path / "digits-vanilla-seed0"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (run / "metrics.csv").exists() and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    # A training that went on would still hold its lock.
    with RunFolder(run, FitOptions(resume=True)).locked():
        pass


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digitz"], "no recipe 'digitz'"),
        (["digits", "--variants", "vanila"], "Did you mean 'vanilla'"),
        (["digits", "--variant", "odd=--family odd"], "Variant 'odd': family is 'odd'"),
        (["digits", "--seeds", "one"], "--seeds is 'one'"),
        (["digits", "--training.epochs", "0"], "training.epochs is 0"),
    ],
)
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words, "--runs", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
