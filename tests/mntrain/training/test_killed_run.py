"""A training process that is killed without warning, and goes on."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from mntrain.config import load_experiment
from mntrain.training.checkpoint import load_state
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

SMALL = ["--backbone.width", "0.25", "--data.train_limit", "256", "--training.epochs", "5", "--name", "run"]
SMALL += ["--training.accelerator", "cpu"]
VARIANTS = {
    "mn-ifilm": ["--backbone.ifilm", "true", "--augmentation.auto_augment", "true", "--augmentation.cutout", "2"],
    "maxl-sgd": ["--family", "maxl", "--training.optimizer", "sgd", "--training.learning_rate", "0.05"],
    "vanilla-bf16": [
        *("--family", "vanilla", "--training.precision", "bf16-mixed", "--training.accumulate", "2"),
        *("--training.epochs", "50"),  # a short one is over before it can be killed
    ],
}


@pytest.fixture(scope="module")
def processes() -> Any:
    """Starts processes that have PyTorch already: a server imports it once and forks them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mntrain.training.fit"])
    return context


def same(one: Any, other: Any) -> bool:
    """Compare two nested values bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_killed_process_resumes_to_the_same_state(variant: str, tmp_path: Path, processes: Any) -> None:
    killed = tmp_path / "killed"
    config = load_experiment("digits", [*SMALL, *VARIANTS[variant]])
    process = processes.Process(target=fit, args=(config, FitOptions(runs=killed, quiet=True)))
    process.start()
    last = killed / "run" / "checkpoints" / "last.pt"
    while not last.exists() and process.is_alive():
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.2))
    process.kill()
    process.join()
    assert last.exists(), "the process ended before its first epoch did"
    assert not (killed / "run" / "metrics.json").exists(), "it was too late to kill it"
    fit(config, FitOptions(runs=killed, resume=True, quiet=True))
    fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))
    for name in ("last.pt", "best.pt"):
        states = [load_state(folder / "run" / "checkpoints" / name) for folder in (killed, tmp_path / "whole")]
        for field in ("model", "optimizer", "history", "best_epoch"):
            assert same(*(getattr(state, field) for state in states)), (name, field)
