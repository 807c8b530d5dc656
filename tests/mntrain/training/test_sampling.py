"""Runs that draw their examples class by class: what the steps see, runs that go on, and runs of two processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mntrain.config import load_experiment
from mntrain.training.checkpoint import load_state
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.run_folder import FitOptions

TAIL = ["--data.imbalance.kind", "exponential", "--data.imbalance.largest", "40", "--data.imbalance.ratio", "20"]
TINY = [*TAIL, "--backbone.width", "0.1", "--training.batch_size", "16", "--training.accelerator", "cpu"]
TINY += ["--family", "vanilla", "--training.epochs", "2", "--name", "run"]


@pytest.mark.parametrize(("sampling", "power"), [("instance", 1.0), ("square_root", 0.5), ("class_balanced", 0.0)])
def test_steps_see_classes_as_often_as_the_sampling_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampling: str, power: float
) -> None:
    seen: list[int] = []
    step = Trainer._step

    def watched(self: Trainer, phase: Any, batch: Any, total: int) -> Any:
        seen.extend(batch.targets.tolist())
        return step(self, phase, batch, total)

    monkeypatch.setattr(Trainer, "_step", watched)
    config = load_experiment("digits", [*TINY, "--training.epochs", "1", "--training.sampling", sampling])
    fit(config, FitOptions(runs=tmp_path, quiet=True))
    sizes = np.floor(40 * 20 ** (-np.arange(10) / 9) + 1e-9)
    shares = sizes**power
    np.testing.assert_allclose(np.bincount(seen), sizes.sum() * shares / shares.sum(), atol=1)


def test_a_broken_off_run_draws_as_the_whole_one(tmp_path: Path, break_off: Any) -> None:
    config = load_experiment("digits", [*TINY, "--training.sampling", "class_balanced"])
    fit(config, FitOptions(runs=tmp_path / "whole", quiet=True))
    break_off(config, FitOptions(runs=tmp_path / "parts", quiet=True), 1)
    fit(config, FitOptions(runs=tmp_path / "parts", quiet=True, resume=True))
    files = [tmp_path / name / "run" / "artifact" / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_processes_that_share_a_run_draw_alike(tmp_path: Path) -> None:
    words = [*TINY, "--training.epochs", "1", "--training.sampling", "square_root"]
    fit(load_experiment("digits", words), FitOptions(runs=tmp_path / "one", quiet=True))
    command = [sys.executable, "-m", "mntrain", "fit", "digits", *words, "--training.devices", "2"]
    subprocess.run([*command, "--runs", str(tmp_path / "two"), "--json"], check=True, capture_output=True)
    states = [load_state(tmp_path / name / "run" / "checkpoints" / "last.pt").model for name in ("one", "two")]
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-3, atol=1e-4)
