"""Whole runs on digits: what is written, resuming, and what is refused."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mntrain.artifact import load_artifact
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.data.config import DataConfig
from mntrain.data.sources import load_images
from mntrain.errors import CheckpointError, ConfigError, TrainingError
from mntrain.training.evaluation import evaluate
from mntrain.training.fit import FitOptions, fit
from mntrain.training.loop import Trainer

TINY = ["--backbone.width", "0.25", "--meta_neighborhoods.entries", "20", "--data.train_limit", "256", "--name", "run"]


def tiny(*overrides: str) -> ExperimentConfig:
    return load_experiment("digits", [*TINY, "--training.epochs", "3", *overrides])


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_artifact(folder / "artifact").model.state_dict())


def test_a_run_writes_what_it_promises(runs: Path) -> None:
    folder = runs / "meta_neighborhoods"
    result = json.loads((folder / "metrics.json").read_text())
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert float(rows[result["best_epoch"] - 1]["validation_accuracy"]) == result["validation"]["accuracy"]
    assert result["test"]["accuracy"] > 0.5, "two epochs on digits are far better than chance"
    split = json.loads((folder / "split.json").read_text())["splits"]
    assert {name: len(split[name]["indices"]) for name in split} == load_artifact(folder / "artifact").config.split[
        "counts"
    ]
    assert yaml.safe_load((folder / "config.yaml").read_text())["meta_neighborhoods"]["entries"] == 60
    events = EventAccumulator(str(folder / "events")).Reload()
    assert [event.step for event in events.Scalars("validation/accuracy")] == [1, 2]
    assert {item.name for item in (folder / "checkpoints").iterdir()} == {"last.pt", "best.pt"}


def test_the_artifact_gives_the_accuracy_that_the_run_reported(runs: Path) -> None:
    for folder in runs.iterdir():
        artifact = load_artifact(folder / "artifact")
        found = evaluate(artifact.model, artifact.preprocessing, load_images(DataConfig()).test, 100)
        reported = json.loads((folder / "metrics.json").read_text())["test"]
        assert found.accuracy == pytest.approx(reported["accuracy"], abs=1e-6)
        assert (found.unadapted_accuracy is None) == (folder.name == "vanilla")


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit(tiny("--training.epochs", "1", "--seed", str(seed)), FitOptions(runs=tmp_path / name, quiet=True))
    one, same, other = (weights(tmp_path / name / "run") for name in "abc")
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])


def test_a_run_killed_between_epochs_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("--augmentation.crop_padding", "1")
    fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))

    train_epoch = Trainer._train_epoch

    def killed(self: Trainer, loader: Any, epoch: int, progress: Any) -> Any:
        if epoch == 2:
            raise KeyboardInterrupt
        return train_epoch(self, loader, epoch, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(config, FitOptions(runs=tmp_path / "broken", quiet=True))
    result = fit(config, FitOptions(runs=tmp_path / "broken", resume=True, quiet=True))
    assert result["epochs"] == 3
    whole, resumed = weights(tmp_path / "whole" / "run"), weights(tmp_path / "broken" / "run")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    whole_rows, resumed_rows = ((tmp_path / name / "run" / "metrics.csv").read_text() for name in ("whole", "broken"))
    assert whole_rows == resumed_rows


def test_a_run_is_never_overwritten_unasked(tmp_path: Path) -> None:
    config = tiny("--training.epochs", "1")
    fit(config, FitOptions(runs=tmp_path, quiet=True))
    before = (tmp_path / "run" / "metrics.json").read_text()
    with pytest.raises(ConfigError, match=r"exists already.*--resume.*--overwrite"):
        fit(config, FitOptions(runs=tmp_path, quiet=True))
    assert (tmp_path / "run" / "metrics.json").read_text() == before
    fit(config, FitOptions(runs=tmp_path, overwrite=True, quiet=True))


def test_resuming_another_configuration_or_other_data_is_refused(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    with pytest.raises(ConfigError, match=r"another configuration: training\.learning_rate \(0\.001 → 0\.01\)"):
        fit(tiny("--training.learning_rate", "0.01"), FitOptions(runs=tmp_path, resume=True, quiet=True))
    with pytest.raises(ConfigError, match="backbone"):
        fit(tiny("--backbone.width", "0.5"), FitOptions(runs=tmp_path, resume=True, quiet=True))
    with pytest.raises(CheckpointError, match="There is no run"):
        fit(tiny("--name", "other"), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    file = tmp_path / "run" / "checkpoints" / "last.pt"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"last\.pt is damaged"):
        fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_a_full_disk_while_saving_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    file = tmp_path / "run" / "checkpoints" / "last.pt"
    good = file.read_bytes()

    def full(values: object, path: Path) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(CheckpointError, match=r"No space left on device.*untouched.*--resume"):
            fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))
    assert file.read_bytes() == good
    assert {item.name for item in file.parent.iterdir()} == {"last.pt", "best.pt"}
    fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny("--meta_neighborhoods.step_size", "1e300")
    with pytest.raises(TrainingError, match=r"loss is (nan|inf) in epoch 1, step 1.*learning_rate"):
        fit(config, FitOptions(runs=tmp_path, quiet=True))


def test_a_run_can_be_moved(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vanilla" / "artifact", tmp_path / "elsewhere")
    assert load_artifact(tmp_path / "elsewhere").config.family == "vanilla"
