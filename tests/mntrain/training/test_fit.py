"""Whole runs on digits: what is written, resuming, and what is refused."""

import csv
import dataclasses
import importlib
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning_fabric import Fabric
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mntrain.artifact import load_artifact
from mntrain.config import ExperimentConfig, load_experiment
from mntrain.data.augmentation import Augmentation
from mntrain.data.config import DataConfig
from mntrain.data.loading import load_data, load_images
from mntrain.errors import CheckpointError, ConfigError, TrainingError
from mntrain.models.base import Batch
from mntrain.models.vanilla.model import Vanilla
from mntrain.training import loop
from mntrain.training.checkpoint import load_state, save_state
from mntrain.training.evaluation import ACCURACY, Evaluation, EvaluationPlan, evaluate
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.run_folder import FitOptions, RunFolder

BreakOff = Callable[[ExperimentConfig, FitOptions, int], None]
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
        found = evaluate(
            artifact.model,
            artifact.preprocessing,
            load_images(DataConfig()).test,
            EvaluationPlan(metric=ACCURACY, batch_size=100),
        )
        reported = json.loads((folder / "metrics.json").read_text())["test"]
        assert found.score == pytest.approx(reported["accuracy"], abs=1e-6)
        assert (found.unadapted_score is not None) == (folder.name == "meta_neighborhoods")


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit(tiny("--training.epochs", "1", "--seed", str(seed)), FitOptions(runs=tmp_path / name, quiet=True))
    one, same, other = (weights(tmp_path / name / "run") for name in "abc")
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])


def test_a_run_killed_between_epochs_resumes_to_the_same_weights(tmp_path: Path, break_off: BreakOff) -> None:
    config = tiny("--augmentation.crop_padding", "1")
    fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))
    break_off(config, FitOptions(runs=tmp_path / "broken", quiet=True), 2)
    result = fit(config, FitOptions(runs=tmp_path / "broken", resume=True, quiet=True))
    assert result is not None
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


def test_a_run_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """A field that did not exist yet has its default, in the configuration and in the optimiser's state."""
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    file = tmp_path / "run" / "checkpoints" / "last.pt"
    state = load_state(file)
    for section, field in (("training", "optimizer"), ("training", "accumulate"), ("meta_neighborhoods", "auxiliary")):
        del state.config[section][field]
    for group in state.optimizer["param_groups"]:
        del group["rate"]
    save_state(file, state)
    more = ["--training.epochs", "2", "--training.drop_at", "1"]
    result = fit(tiny(*more), FitOptions(runs=tmp_path, resume=True, quiet=True))
    assert result is not None
    assert result["epochs"] == 2
    del state.config["training"]["last_batch"]
    save_state(file, state)
    with pytest.raises(ConfigError, match=r"training\.last_batch \('drop' → 'train'\)"):
        fit(tiny(*more), FitOptions(runs=tmp_path, resume=True, quiet=True))
    state.config["training"] |= {"optimizer": "sgd", "last_batch": "train"}
    save_state(file, state)
    with pytest.raises(ConfigError, match=r"training\.optimizer \('sgd' → 'adamw'\)"):
        fit(tiny(*more), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny("--meta_neighborhoods.scale", "3e38")
    with pytest.raises(TrainingError, match=r"loss is (nan|inf) in epoch 1, step \d.*learning_rate"):
        fit(config, FitOptions(runs=tmp_path, quiet=True))


@pytest.mark.parametrize("read_seconds", [0.0, 1e9])
def test_a_loss_that_is_not_finite_is_named_by_its_step_and_leaves_the_last_checkpoint(
    read_seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading losses back after every step or only at the end of the epoch makes no difference."""
    monkeypatch.setattr(loop, "_READ_SECONDS", read_seconds)
    config = tiny("--training.batch_size", "64", "--family", "vanilla")
    calls, compute = 0, Vanilla.loss

    def diverging(self: Vanilla, batch: Batch) -> Any:
        nonlocal calls
        calls += 1
        loss, prediction = compute(self, batch)
        return (loss * math.nan if calls == steps + 3 else loss), prediction

    steps = len(load_data(config.data).train) // config.training.batch_size
    monkeypatch.setattr(Vanilla, "loss", diverging)
    with pytest.raises(TrainingError, match=r"loss is nan in epoch 2, step 3\. The checkpoint of epoch 1 is kept"):
        fit(config, FitOptions(runs=tmp_path, quiet=True))
    assert calls == (steps + 3 if read_seconds == 0 else 2 * steps)
    state = load_state(tmp_path / "run" / "checkpoints" / "last.pt")
    assert state.epoch == 1
    assert all(bool(torch.isfinite(value).all()) for value in state.model.values())


def test_a_validation_loss_that_is_not_finite_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step of an epoch may have been the one that diverged."""
    evaluation = Evaluation(examples=10, metric="accuracy", score=0.1, loss=math.nan)
    monkeypatch.setattr(Trainer, "_evaluate", lambda *_: evaluation)
    with pytest.raises(TrainingError, match=r"validation loss is nan after epoch 1.*learning_rate"):
        fit(tiny(), FitOptions(runs=tmp_path, quiet=True))
    assert not (tmp_path / "run" / "checkpoints").exists(), "such weights are never the best ones"


def test_a_run_can_be_moved(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vanilla" / "artifact", tmp_path / "elsewhere")
    assert load_artifact(tmp_path / "elsewhere").config.family == "vanilla"


def test_overwriting_removes_runs_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="not a run of mntrain and is left alone"):
        fit(tiny(), FitOptions(runs=tmp_path, overwrite=True, quiet=True))
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years of work"


def test_settings_that_cannot_work_leave_no_folder_and_no_run_behind(tmp_path: Path) -> None:
    wrong = tiny("--augmentation.crop_padding", "99")
    with pytest.raises(ConfigError, match="crop_padding"):
        fit(wrong, FitOptions(runs=tmp_path, quiet=True))
    assert list(tmp_path.iterdir()) == []
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    with pytest.raises(ConfigError, match="crop_padding"):
        fit(wrong, FitOptions(runs=tmp_path, overwrite=True, quiet=True))
    assert (tmp_path / "run" / "metrics.json").is_file(), "the good run is still there"


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run", FitOptions()).locked(),
        pytest.raises(ConfigError, match="being trained by another process"),
    ):
        fit(tiny(), FitOptions(runs=tmp_path, quiet=True))
    assert not (tmp_path / "run").exists()


def test_a_runs_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot be written: Not a directory"):
        fit(tiny(), FitOptions(runs=tmp_path / "file", quiet=True))


def test_more_epochs_may_be_asked_for_if_the_past_ones_stay_what_they_were(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "4"), FitOptions(runs=tmp_path, quiet=True))
    with pytest.raises(ConfigError, match=r"Epoch 4 .* had the learning rate 0\.0001.*--training\.drop_at 0\.375"):
        fit(tiny("--training.epochs", "8"), FitOptions(runs=tmp_path, resume=True, quiet=True))
    longer = ["--training.epochs", "8", "--training.drop_at", "0.375"]
    fit(tiny(*longer), FitOptions(runs=tmp_path, resume=True, quiet=True))
    with (tmp_path / "run" / "metrics.csv").open() as file:
        assert [float(row["learning_rate"]) for row in csv.DictReader(file)] == pytest.approx([1e-3] * 3 + [1e-4] * 5)
    recorded = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["training"]
    assert (recorded["epochs"], recorded["drop_at"]) == (8, 0.375)


def test_data_that_has_changed_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    module = importlib.import_module("mntrain.training.checked_run")

    def changed(config: DataConfig) -> Any:
        data = load_data(config)
        return dataclasses.replace(data, split=dataclasses.replace(data.split, sha256="0" * 64))

    monkeypatch.setattr(module, "load_data", changed)
    with pytest.raises(CheckpointError, match=r"data of run .* has changed"):
        fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_the_artifact_holds_the_best_epoch_and_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = iter([0.2, 0.9, 0.9, 0.5])
    losses = iter([1.0, 0.5, 0.7, 0.1])

    def validate(self: Trainer, epoch: int) -> dict[str, float]:
        return {"validation_loss": next(losses), "validation_accuracy": next(scripted)}

    monkeypatch.setattr(Trainer, "_validate", validate)
    result = fit(
        tiny("--training.epochs", "4", "--meta_neighborhoods.init", "paper"), FitOptions(runs=tmp_path, quiet=True)
    )
    assert result is not None
    assert result["best_epoch"] == 2, "the highest accuracy; of equals, the lowest loss"
    best = load_state(tmp_path / "run" / "checkpoints" / "best.pt")
    last = load_state(tmp_path / "run" / "checkpoints" / "last.pt")
    saved = weights(tmp_path / "run")
    assert (best.epoch, last.epoch) == (2, 4)
    assert all(torch.equal(saved[name], best.model[name]) for name in saved)
    assert not torch.equal(saved["head.weight"], last.model["head.weight"])


def test_images_are_augmented_while_training_and_never_while_evaluating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []

    def spy(self: Augmentation, images: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(images.shape))
        assert 0 <= images.min() <= images.max() <= 1
        return images * 0

    monkeypatch.setattr(Augmentation, "forward", spy)
    result = fit(tiny("--training.epochs", "2"), FitOptions(runs=tmp_path, quiet=True))
    assert seen == [(64, 1, 8, 8)] * 2 * (256 // 64)
    assert result is not None
    assert result["test"]["accuracy"] < 0.5, "black images taught nothing, so the loop did use what it was given"


def test_gradients_are_clipped_element_by_element(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    clip = Fabric.clip_gradients

    def spy(self: Fabric, module: Any, optimizer: Any, **limits: Any) -> Any:
        gradient = module.head.weight.grad
        gradient[0, :2] = torch.tensor([100.0, 0.25])
        result = clip(self, module, optimizer, **limits)
        asked.append({"grad": gradient[0, :2].tolist()})
        return result

    monkeypatch.setattr(Fabric, "clip_gradients", spy)
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    assert asked[0]["grad"] == [10.0, 0.25]


# What is drawn at random or averaged over a batch: augmentation, dictionary and feature dropout, batch normalisation.
# Adam's first steps are signs of gradients, so a deep network makes much of a last bit: fewer steps, more allowance.
# Shares are uneven: batches of 64 leave a last one of 59, or three examples that make one of 66 and one of 65.
PARALLEL = {
    "mn-ifilm": (["--backbone.ifilm", "true", "--augmentation.auto_augment", "true"], 251, 1e-4),
    # An epoch that leaves the dictionary out, and one after it was placed.
    "mn-data": (["--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "1"], 131, 1e-3),
    "mn-dense": (["--meta_neighborhoods.dropout_mode", "per_batch", "--backbone.name", "densenet40bc"], 131, 1e-3),
}


@pytest.mark.parametrize("variant", PARALLEL)
def test_two_processes_have_the_loss_curve_of_one(variant: str, tmp_path: Path) -> None:
    words, limit, tolerance = PARALLEL[variant]
    words = [*TINY, *words, "--training.epochs", "2", "--data.train_limit", str(limit), "--training.accelerator", "cpu"]
    fit(load_experiment("digits", [*words, "--name", "one"]), FitOptions(runs=tmp_path, quiet=True))
    command = [sys.executable, "-m", "mntrain", "fit", "digits", *words, "--name", "two", "--training.devices", "2"]
    command += ["--runs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on 359 examples") == 1, "one process speaks, for all images"
    assert sum(line.startswith("data  ") for line in done.stderr.splitlines()) == 1
    curves = []
    for name in ("one", "two"):
        with (tmp_path / name / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        curves.append([float(row[column]) for row in rows for column in ("train_loss", "validation_loss")])
    assert curves[1] == pytest.approx(curves[0], rel=tolerance)
