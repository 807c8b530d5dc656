"""Warm-up of the learning rate, beside PyTorch's own schedulers."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, MultiStepLR

from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.optimizer import learning_rate_at, warm_up_factor
from mntrain.training.rates import adam_reach
from mntrain.training.run_folder import FitOptions
from mntrain.training_config import TrainingConfig

STEPS = 4
TINY = ["--backbone.width", "0.1", "--data.train_limit", "64", "--training.batch_size", "16", "--name", "run"]
TINY += ["--family", "vanilla", "--training.epochs", "4", "--training.schedule", "cosine"]


@pytest.mark.parametrize(
    ("fields", "schedule"),
    [
        ({"drop_at": 0.5}, lambda optimizer: MultiStepLR(optimizer, [4], 0.1)),
        ({"milestones": (0.25, 0.75)}, lambda optimizer: MultiStepLR(optimizer, [2, 6], 0.1)),
        ({"schedule": "cosine"}, lambda optimizer: CosineAnnealingLR(optimizer, 8)),
    ],
)
def test_a_warm_up_multiplies_every_schedule_as_in_pytorch(fields: dict[str, Any], schedule: Any) -> None:
    config = TrainingConfig(epochs=8, warm_up=3, learning_rate=0.5, **fields)
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    rise = LinearLR(optimizer, 0.01, 1.0, 3 * STEPS)
    by_epoch: LRScheduler = schedule(optimizer)
    for epoch in range(8):
        for step in range(STEPS):
            rate = learning_rate_at(epoch, config) * warm_up_factor(epoch + step / STEPS, config)
            assert rate == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no steps are taken
                rise.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            by_epoch.step()


def test_a_share_and_a_number_of_epochs_mean_the_same() -> None:
    share, number = TrainingConfig(epochs=8, warm_up=0.25), TrainingConfig(epochs=8, warm_up=2)
    assert share.warm_up_epochs == number.warm_up_epochs == 2
    assert warm_up_factor(1.5, share) == warm_up_factor(1.5, number) == pytest.approx(0.01 + 0.99 * 0.75)
    assert warm_up_factor(0.0, TrainingConfig()) == 1


def test_the_way_of_adam_counts_the_warm_up() -> None:
    """Two epochs of four steps, the first at 0.01, 0.2575, 0.505 and 0.7525 of the rate."""
    training = TrainingConfig(epochs=2, drop_at=1.0, batch_size=16, warm_up=1)
    assert adam_reach(training, 64) == pytest.approx(1e-3 * (0.01 + 0.2575 + 0.505 + 0.7525 + 4))
    assert adam_reach(training, 64, first_epoch=1) == pytest.approx(4e-3)


@pytest.mark.parametrize("warm_up", [-0.1, 4, 5.5])
def test_a_warm_up_leaves_an_epoch_at_the_full_rate(warm_up: float) -> None:
    with pytest.raises(ConfigError, match=r"training\.warm_up is .* below the 4 of the run"):
        TrainingConfig(epochs=4, warm_up=warm_up)


def test_steps_of_a_run_take_the_rates_and_a_resumed_run_takes_the_same(
    tmp_path: Path, break_off: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    step = Trainer._step

    def noted(self: Trainer, *args: Any) -> Any:
        rates.append(self.optimizer.param_groups[0]["lr"])
        return step(self, *args)

    monkeypatch.setattr(Trainer, "_step", noted)
    config = load_experiment("digits", [*TINY, "--training.warm_up", "1.5"])
    whole = fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))
    expected = [
        learning_rate_at(epoch, config.training) * warm_up_factor(epoch + step / 4, config.training)
        for epoch in range(4)
        for step in range(4)
    ]
    assert rates == expected
    assert rates[:2] == pytest.approx([1e-5, 1e-3 * (0.01 + 0.99 / 6)])
    break_off(config, FitOptions(runs=tmp_path / "parts", quiet=True), 1)
    resumed = fit(config, FitOptions(runs=tmp_path / "parts", quiet=True, resume=True))
    assert whole is not None
    assert resumed is not None
    assert {**whole, "train_seconds": 0} == {**resumed, "train_seconds": 0}


def test_another_length_would_have_had_another_warm_up(tmp_path: Path, break_off: Any) -> None:
    words = [*TINY[:-2], "--training.warm_up", "0.25", "--training.drop_at", "1.0"]
    config = load_experiment("digits", words)
    break_off(config, FitOptions(runs=tmp_path, quiet=True), 2)
    longer = dataclasses.replace(config, training=dataclasses.replace(config.training, epochs=8))
    with pytest.raises(ConfigError, match=r"warm-up of run .* took 1 epochs; with 8 epochs .* would have taken 2"):
        fit(longer, FitOptions(runs=tmp_path, resume=True, quiet=True))
    same = dataclasses.replace(longer, training=dataclasses.replace(longer.training, warm_up=1.0))
    with pytest.raises(ConfigError, match=r"training\.warm_up"):
        fit(same, FitOptions(runs=tmp_path, resume=True, quiet=True))


@pytest.mark.parametrize(("warm_up", "epochs"), [("0", 2), ("3", 3)])
def test_patience_waits_for_the_end_of_the_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_up: str, epochs: int
) -> None:
    """No epoch is better than the first."""
    alike = {"validation_loss": 1.0, "validation_accuracy": 0.5}
    monkeypatch.setattr(Trainer, "_validate", lambda self, epoch: dict(alike))
    words = ["--training.patience", "1", "--training.warm_up", warm_up]
    result = fit(load_experiment("digits", [*TINY, *words]), FitOptions(runs=tmp_path, quiet=True))
    assert result is not None
    assert (result["epochs"], result["best_epoch"]) == (epochs, 1)
