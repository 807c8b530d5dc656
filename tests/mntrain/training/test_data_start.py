"""Runs whose dictionary starts from data."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from mntrain.config import ExperimentConfig, load_experiment
from mntrain.errors import ConfigError
from mntrain.training.checked_run import check_run
from mntrain.training.checkpoint import load_state
from mntrain.training.data_start import _MOST_EXAMPLES, _chosen, place
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

SMALL = [
    "--backbone.width",
    "0.25",
    "--data.train_limit",
    "256",
    "--training.epochs",
    "3",
    "--training.keep_every",
    "1",
]
SMALL += ["--training.accelerator", "cpu", "--meta_neighborhoods.entries", "60", "--training.batch_size", "64"]
WARM = ["--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "2"]


def experiment(*words: str) -> ExperimentConfig:
    return load_experiment("digits", [*SMALL, *words])


def columns(run: Path, *names: str) -> list[tuple[str, ...]]:
    with (run / "metrics.csv").open() as file:
        return [tuple(row[name] for name in names) for row in csv.DictReader(file)]


def test_the_network_warms_up_like_vanilla_and_the_best_epoch_has_a_dictionary(tmp_path: Path) -> None:
    result = fit(experiment(*WARM, "--name", "data"), FitOptions(runs=tmp_path, quiet=True))
    fit(experiment("--family", "vanilla", "--name", "vanilla"), FitOptions(runs=tmp_path, quiet=True))
    names = ("train_loss", "validation_loss", "validation_accuracy")
    ours, plain = columns(tmp_path / "data", *names), columns(tmp_path / "vanilla", *names)
    warmed, alone = (np.array(rows[:2], float) for rows in (ours, plain))
    # Weights lie elsewhere in memory, for which some processors' products round in another order.
    np.testing.assert_allclose(warmed, alone, rtol=1e-6, err_msg="the warm-up differs from the vanilla network")
    assert ours[2] != plain[2]
    assert result is not None
    assert result["best_epoch"] == 3, "whatever the validation says: earlier epochs have no dictionary"
    start = result["start"]
    assert {name: start[name] for name in ("entries", "examples", "warm_up")} == {
        "entries": 60,
        "examples": 256,
        "warm_up": 2,
    }
    assert sum(start["entries_of_classes"]) == 60
    assert start["weight_change"] == pytest.approx(0.2, rel=0.02)
    assert json.loads((tmp_path / "data" / "metrics.json").read_text())["start"] == start
    consistency = result["adaptation"]["consistency"]
    assert consistency["share"] > 0.5 > 4 * consistency["chance"], "of features that one more epoch has moved"


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_that_was_killed_starts_from_the_same_data(epochs: int, tmp_path: Path, break_off: Any) -> None:
    config = experiment(*WARM, "--name", "run")
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    break_off(config, FitOptions(runs=broken, quiet=True), epochs)
    resumed = fit(config, FitOptions(runs=broken, resume=True, quiet=True))
    alone = fit(config, FitOptions(runs=whole, quiet=True))
    assert resumed is not None
    assert alone is not None
    assert resumed["start"] == alone["start"]
    states = [load_state(folder / "run" / "checkpoints" / "last.pt") for folder in (broken, whole)]
    assert states[0].history == states[1].history
    assert all(torch.equal(states[0].model[name], value) for name, value in states[1].model.items())


def test_a_longer_run_keeps_its_dictionary_and_a_shorter_one_does_not_go_without(
    tmp_path: Path, break_off: Any
) -> None:
    share = ("--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "0.5", "--name", "run")
    words = (
        *share,
        "--data.train_limit",
        "64",
        "--backbone.width",
        "0.1",
        "--meta_neighborhoods.entries",
        "10",
        "--training.drop_at",
        "1",
    )
    options = FitOptions(runs=tmp_path, quiet=True)
    break_off(experiment(*words, "--training.epochs", "6"), options, 2)
    resume = FitOptions(runs=tmp_path, quiet=True, resume=True)
    with pytest.raises(ConfigError, match=r"has 2 epochs without a dictionary behind it; .* placed after 1"):
        fit(experiment(*words, "--training.epochs", "2"), resume)
    break_off(experiment(*words, "--training.epochs", "4"), resume, 3)
    placed = load_state(tmp_path / "run" / "checkpoints" / "last.pt").start
    assert placed["warm_up"] == 2
    longer = fit(experiment(*words, "--training.epochs", "6"), resume)
    assert longer is not None
    assert longer["start"] == placed, "epoch 4 neither warms up nor places entries again"


def test_every_process_takes_the_start_that_the_first_one_sends() -> None:
    checked = check_run(experiment(*WARM))
    assert checked.start is not None

    class OfTwo(Fabric):
        world_size = 2

        def broadcast(self, obj: Any, src: int = 0) -> Any:
            return torch.full_like(obj, 7)

    place(checked.start, checked.model, checked.setup.training_data(torch.device("cpu")), OfTwo(accelerator="cpu"))
    assert all(bool((value == 7).all()) for value in checked.model.state_dict().values())


def test_a_start_from_wide_queries_takes_fewer_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = check_run(experiment(*WARM))
    assert checked.start is not None
    model: Any = checked.model
    monkeypatch.setattr("mntrain.training.data_start._MOST_NUMBERS", 90 * model.entry_keys().shape[1])
    data = checked.setup.training_data(torch.device("cpu"))
    figures = place(checked.start, model, data, Fabric(accelerator="cpu", devices=1))
    assert figures["examples"] == pytest.approx(90, abs=10)  # of each class its share, rounded up


def test_patience_does_not_end_a_run_before_its_dictionary(tmp_path: Path) -> None:
    words = ("--training.patience", "1", "--training.epochs", "8", "--training.learning_rate", "1e-9")
    result = fit(
        experiment("--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "5", *words, "--name", "run"),
        FitOptions(runs=tmp_path, quiet=True),
    )
    assert result is not None
    assert 6 <= result["epochs"] < 8
    assert result["best_epoch"] >= 6


def test_a_warm_up_without_an_epoch_for_the_dictionary_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leaves none for the dictionary"):
        fit(
            experiment("--meta_neighborhoods.init", "data", "--meta_neighborhoods.warm_up", "3", "--name", "run"),
            FitOptions(runs=tmp_path, quiet=True),
        )
    assert not any(tmp_path.iterdir())


def test_a_large_set_is_drawn_from_by_class() -> None:
    targets = np.repeat([0, 1], [3 * _MOST_EXAMPLES - 5, 5])
    chosen = _chosen(targets, 0, _MOST_EXAMPLES)
    assert len(chosen) == pytest.approx(_MOST_EXAMPLES, abs=2)
    assert np.bincount(targets[chosen])[1] == 2
    assert np.array_equal(chosen, _chosen(targets, 0, _MOST_EXAMPLES))
    assert len(np.unique(chosen)) == len(chosen)
    assert len(_chosen(np.zeros(2 * _MOST_EXAMPLES, np.float32), 0, _MOST_EXAMPLES)) == _MOST_EXAMPLES
