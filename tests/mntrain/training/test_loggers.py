"""Loggers of a run: what MLflow and Weights & Biases get, that a run goes on in them, and that nothing is sent."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.training import loggers
from mntrain.training.fit import fit
from mntrain.training.lightning_loggers import silence_loggers
from mntrain.training.run_folder import FitOptions

TINY = ["--backbone.width", "0.1", "--data.train_limit", "64", "--training.batch_size", "32", "--name", "run"]
TINY += ["--family", "vanilla", "--training.epochs", "3"]
VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT", "MLFLOW_ALLOW_FILE_STORE")


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings of the user; Lightning's message about a new experiment is not for tests."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    level = logging.getLogger("pytorch_lightning.loggers.mlflow").level
    yield
    logging.getLogger("pytorch_lightning.loggers.mlflow").setLevel(level)


class Recorder:
    """A logger that remembers, and can fail."""

    def __init__(self, fails_at: int = 99) -> None:
        self.rows: list[Any] = []
        self.result: dict[str, Any] = {}
        self.artifact: Path | None = None
        self.closed: list[bool] = []
        self.fails_at = fails_at

    def add_row(self, row: Any) -> None:
        if row["epoch"] == self.fails_at:
            raise ConnectionError("the server has gone")
        self.rows.append(row)

    def add_result(self, result: Any, artifact: Path) -> None:
        self.result, self.artifact = dict(result), artifact

    def close(self, *, failed: bool) -> None:
        self.closed.append(failed)


def experiment(*words: str) -> Any:
    return load_experiment("digits", [*TINY, *words])


def of_run(store: Path) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient((store / "mlruns").resolve().as_uri())
    (found,) = client.search_experiments(filter_string="name = 'mntrain'")
    (run,) = client.search_runs([found.experiment_id])
    return client, run


def test_mlflow_gets_figures_in_the_folder_of_the_run_and_a_resumed_run_goes_on(
    tmp_path: Path, break_off: Any, untouched: None
) -> None:
    config = experiment("--training.loggers", "[mlflow]")
    break_off(config, FitOptions(runs=tmp_path, quiet=True), 1)
    client, run = of_run(tmp_path / "run")
    assert (run.info.status, run.info.run_name) == ("FAILED", "run")
    result = fit(config, FitOptions(runs=tmp_path, quiet=True, resume=True))
    assert result is not None
    client, run = of_run(tmp_path / "run")
    assert run.info.status == "FINISHED"
    assert run.data.params["training/learning_rate"] == str(config.training.learning_rate)
    assert run.data.params["family"] == "vanilla"
    history = client.get_metric_history(run.info.run_id, "validation/accuracy")
    assert [point.step for point in history] == [1, 2, 3]
    lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    column = lines[0].split(",").index("validation_accuracy")
    assert [point.value for point in history] == [float(line.split(",")[column]) for line in lines[1:]]
    assert run.data.metrics["test/accuracy"] == result["test"]["accuracy"]
    assert run.data.tags["artifact"] == str((tmp_path / "run" / "artifact").resolve())
    assert not (tmp_path / "run" / "events").exists(), "tensorboard was not asked for"


def test_mlflow_writes_where_the_user_says(tmp_path: Path, untouched: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "elsewhere").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    words = ("--training.loggers", "[tensorboard,mlflow]", "--training.epochs", "1")
    fit(experiment(*words), FitOptions(runs=tmp_path, quiet=True))
    assert not (tmp_path / "run" / "mlruns").exists()
    assert (tmp_path / "elsewhere").is_dir()
    assert (tmp_path / "run" / "events").is_dir()
    assert os.environ["MLFLOW_TRACKING_URI"] == (tmp_path / "elsewhere").as_uri()


def test_every_run_of_a_process_has_its_own_folder(tmp_path: Path, untouched: None) -> None:
    words = ("--training.loggers", "[mlflow]", "--training.epochs", "1")
    for name in ("first", "second"):
        fit(experiment(*words, "--name", name), FitOptions(runs=tmp_path, quiet=True))
        assert "MLFLOW_TRACKING_URI" not in os.environ
    assert all((tmp_path / name / "mlruns").is_dir() for name in ("first", "second"))


def test_wandb_is_offline_in_the_folder_of_the_run_and_a_resumed_run_keeps_its_name(tmp_path: Path) -> None:
    """Run as users do: the package of Weights & Biases keeps state in its process."""
    words = ["fit", "digits", *TINY, "--training.loggers", "[wandb]", "--json", "--runs", str(tmp_path)]
    script = f"from mntrain.commands.cli import main; raise SystemExit(main({words}) or main({[*words, '--resume']}))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    identity = json.loads((tmp_path / "run" / "loggers.json").read_text())["wandb"]
    folders = sorted((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert [folder.name.rpartition("-")[2] for folder in folders] == [identity] * len(folders)
    recorded = b"".join(file.read_bytes() for folder in folders for file in folder.glob("*.wandb"))
    for name in (
        b"validation/accuracy",
        b"test/accuracy",
        b"learning_rate",
        str(tmp_path / "run" / "artifact").encode(),
    ):
        assert name in recorded, name


def test_a_logger_that_fails_is_dropped_and_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fragile, sound = Recorder(fails_at=2), Recorder()
    started = {"mlflow": fragile, "wandb": sound}
    monkeypatch.setattr(loggers, "_start", lambda name, run, config: started[name])
    config = experiment("--training.loggers", "[mlflow,wandb]")
    result = fit(config, FitOptions(runs=tmp_path, quiet=True))
    assert result is not None
    assert [row["epoch"] for row in fragile.rows] == [1]
    assert (fragile.result, fragile.closed) == ({}, [])
    assert [row["epoch"] for row in sound.rows] == [1, 2, 3]
    assert (sound.result, sound.artifact, sound.closed) == (result, tmp_path / "run" / "artifact", [False])
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note:")]
    assert notes == [
        "note: mlflow gets no more figures of this run (ConnectionError: the server has gone); training goes on"
    ]


def test_a_broken_off_run_is_logged_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, break_off: Any) -> None:
    logger = Recorder()
    monkeypatch.setattr(loggers, "_start", lambda name, run, config: logger)
    break_off(experiment("--training.loggers", "[wandb]"), FitOptions(runs=tmp_path, quiet=True), 1)
    assert logger.closed == [True]


def test_a_logger_that_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untouched: None
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://host")
    with pytest.raises(ConfigError, match=r"training\.loggers has mlflow, which cannot be started .*nonsense.*leave"):
        fit(experiment("--training.loggers", "[mlflow]"), FitOptions(runs=tmp_path, quiet=True))


@pytest.mark.parametrize(("name", "missing"), [("mlflow", "mlflow"), ("wandb", "pytorch_lightning")])
def test_a_missing_package_is_named_with_its_extra_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, missing: str
) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda package: None if package == missing else package)
    with pytest.raises(ConfigError, match=rf"the package {missing}, which .*{name} needs.*pip install '\.\[{name}\]'"):
        fit(experiment("--training.loggers", f"[{name}]"), FitOptions(runs=tmp_path, quiet=True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", ["[mlfow]", "[mlflow,mlflow]"])
def test_loggers_are_known_and_named_once(names: str) -> None:
    with pytest.raises(ConfigError, match=r"training\.loggers"):
        load_experiment("digits", ["--training.loggers", names])


def test_no_logger_at_all(tmp_path: Path) -> None:
    fit(experiment("--training.loggers", "[]", "--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    assert not {"events", "mlruns", "wandb", "loggers.json"} & {item.name for item in (tmp_path / "run").iterdir()}


def test_reports_of_usage_are_off_unless_the_user_has_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("MLFLOW_DISABLE_TELEMETRY", "WANDB_ERROR_REPORTING", "WANDB_MODE")
    for by_user, expected in (
        ({}, ["true", "false", "offline"]),
        ({"MLFLOW_DISABLE_TELEMETRY": "false", "WANDB_MODE": "online"}, ["false", "false", "online"]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, "environ", dict(by_user))
            silence_loggers()
            assert [os.environ[name] for name in names] == expected
