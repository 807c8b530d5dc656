"""Moving average of the weights: its definition, its statistics, and runs that keep it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from mntrain.artifact import load_artifact
from mntrain.config import load_experiment
from mntrain.errors import CheckpointError, ConfigError
from mntrain.layers.heads import build_head
from mntrain.models.vanilla.model import Vanilla
from mntrain.training.averaging import WeightAverage, kept_weights
from mntrain.training.checkpoint import load_state, save_state
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.run_folder import FitOptions

TINY = ["--backbone.width", "0.1", "--data.train_limit", "64", "--training.batch_size", "16", "--name", "run"]
TINY += ["--training.epochs", "4", "--training.ema", "0.9"]
MN = ["--meta_neighborhoods.entries", "20", "--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "0.5"]


def model() -> Vanilla:
    return Vanilla(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(6)), build_head("dot", 6, 3, 1.0))


def test_the_average_is_the_written_out_one_with_statistics_and_without_counters() -> None:
    torch.manual_seed(0)
    trained = model()
    average = WeightAverage(trained, 0.5)
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    expected: dict[str, torch.Tensor] = {}
    for step in range(20):
        with torch.no_grad():
            for value in trained.parameters():
                value.add_(torch.randn_like(value))
        trained.train()(torch.randn(4, 6))
        average.update(trained)
        decay = min(0.5, (1 + step) / (10 + step)) if step else 0.0
        for name, value in trained.state_dict().items():
            now = value.double()
            expected[name] = now if step == 0 else decay * expected[name] + (1 - decay) * now
    found = average.model.state_dict()
    assert int(found["backbone.1.num_batches_tracked"]) == 20
    for name in found.keys() - {"backbone.1.num_batches_tracked"}:
        torch.testing.assert_close(found[name].double(), expected[name], rtol=1e-5, atol=1e-6)
        assert not torch.equal(found[name], before[name])
        assert not torch.equal(found[name], trained.state_dict()[name])


def test_an_average_that_starts_again_takes_the_next_weights_as_they_are() -> None:
    trained = model()
    average = WeightAverage(trained, 0.9)
    for _ in range(3):
        with torch.no_grad():
            trained.head.weight.add_(1.0)
        average.update(trained)
    average.restart()
    average.update(trained)
    for name, value in average.model.state_dict().items():
        assert torch.equal(value, trained.state_dict()[name])


@pytest.mark.parametrize("family", ["vanilla", "mn", "maxl"])
def test_the_average_is_evaluated_and_becomes_the_artifact(tmp_path: Path, family: str) -> None:
    words = [*TINY, "--family", family, "--training.keep_every", "2", *(MN if family == "mn" else [])]
    result = fit(load_experiment("digits", words), FitOptions(runs=tmp_path, quiet=True))
    assert result is not None
    best = load_state(tmp_path / "run" / "checkpoints" / "best.pt")
    kept = kept_weights(best)
    assert kept.keys() == best.model.keys()
    assert any(not torch.equal(kept[name], value) for name, value in best.model.items())
    stored = load_artifact(tmp_path / "run" / "artifact").model.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in stored.items())
    last = kept_weights(load_state(tmp_path / "run" / "checkpoints" / "last.pt"))
    weights = load_file(str(tmp_path / "run" / "checkpoints" / "epoch-0004.safetensors"))
    assert all(torch.equal(value, last[name]) for name, value in weights.items())


def test_the_average_is_what_validation_chooses_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    averaged: list[bool] = []
    evaluate = Trainer._evaluate

    def watched(self: Trainer, model: Any, examples: Any) -> Any:
        assert self.average is not None
        averaged.append(model is self.average.model)
        return evaluate(self, model, examples)

    monkeypatch.setattr(Trainer, "_evaluate", watched)
    fit(load_experiment("digits", [*TINY, "--family", "vanilla"]), FitOptions(runs=tmp_path, quiet=True))
    # Of four epochs; at the end the model itself has the average of the best one.
    assert averaged == [True] * 4 + [False]


def test_a_broken_off_run_goes_on_with_its_average(tmp_path: Path, break_off: Any) -> None:
    config = load_experiment("digits", [*TINY, "--family", "mn", *MN])
    whole = fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))
    for epochs in (1, 3):  # before the dictionary is placed, and after
        folder = tmp_path / str(epochs)
        break_off(config, FitOptions(runs=folder, quiet=True), epochs)
        parts = fit(config, FitOptions(runs=folder, quiet=True, resume=True))
        assert whole is not None
        assert parts is not None
        assert {**whole, "train_seconds": 0} == {**parts, "train_seconds": 0}
        files = [root / "run" / "artifact" / "model.safetensors" for root in (tmp_path / "whole", folder)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_the_average_forgets_what_was_before_the_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step after the start takes the weights over, dictionary included."""
    steps: list[bool] = []
    step = Trainer._step

    def watched(self: Trainer, *args: Any) -> Any:
        figures = step(self, *args)
        assert self.average is not None
        pairs = zip(self.average.model.parameters(), self.model.module.parameters(), strict=True)
        steps.append(all(torch.equal(average, weight) for average, weight in pairs))
        return figures

    monkeypatch.setattr(Trainer, "_step", watched)
    fit(load_experiment("digits", [*TINY, "--family", "mn", *MN]), FitOptions(runs=tmp_path, quiet=True))
    assert [number for number, equal in enumerate(steps) if equal] == [0, 8]


def test_processes_that_share_a_run_average_alike(tmp_path: Path) -> None:
    words = [*TINY, "--family", "vanilla", "--training.accelerator", "cpu", "--training.epochs", "1"]
    one = fit(load_experiment("digits", words), FitOptions(runs=tmp_path / "one", quiet=True))
    command = [sys.executable, "-m", "mntrain", "fit", "digits", *words, "--training.devices", "2"]
    subprocess.run([*command, "--runs", str(tmp_path / "two"), "--json"], check=True, capture_output=True)
    assert one is not None
    states = [load_state(tmp_path / name / "run" / "checkpoints" / "last.pt").average for name in ("one", "two")]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-3, atol=1e-4)


def test_a_checkpoint_without_its_average_is_refused(tmp_path: Path, break_off: Any) -> None:
    config = load_experiment("digits", [*TINY, "--family", "vanilla"])
    break_off(config, FitOptions(runs=tmp_path, quiet=True), 2)
    last = tmp_path / "run" / "checkpoints" / "last.pt"
    state = load_state(last)
    state.average = {}
    save_state(last, state)
    with pytest.raises(CheckpointError, match="does not fit its own configuration"):
        fit(config, FitOptions(runs=tmp_path, quiet=True, resume=True))


@pytest.mark.parametrize("decay", ["-0.1", "1.0"])
def test_a_decay_is_a_share(decay: str) -> None:
    with pytest.raises(ConfigError, match=r"training\.ema is .*below 1"):
        load_experiment("digits", ["--training.ema", decay])
