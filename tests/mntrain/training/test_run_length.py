"""Every example of a small set is trained on, and a run that is too short to learn says so."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from mntrain.commands.cli import main
from mntrain.config import load_experiment
from mntrain.models.base import Batch
from mntrain.models.vanilla.model import Vanilla
from mntrain.training.fit import fit
from mntrain.training.loop import _rows_of_parts
from mntrain.training.run_folder import FitOptions
from mntrain.training.run_length import FEWEST_STEPS, optimizer_steps, short_run_advice
from mntrain.training_config import TrainingConfig


@pytest.mark.parametrize(("last_batch", "seen", "steps"), [("train", 216, 2), ("drop", 128, 1)])
def test_a_set_of_216_images_is_trained_on_whole(
    last_batch: str, seen: int, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[torch.Tensor] = []
    loss = Vanilla.loss

    def watched(self: Vanilla, batch: Batch) -> Any:
        batches.append(batch.inputs.flatten(1))
        return loss(self, batch)

    monkeypatch.setattr(Vanilla, "loss", watched)
    words = ["--family", "vanilla", "--backbone.width", "0.1", "--data.train_limit", "216", "--training.epochs", "1"]
    words += ["--training.batch_size", "128", "--training.last_batch", last_batch, "--name", "run"]
    result = fit(load_experiment("digits", words), FitOptions(runs=tmp_path, quiet=True))
    counts = Counter(row.numpy().tobytes() for batch in batches for row in batch)
    assert (len(counts), set(counts.values())) == (seen, {1}), "each image exactly once"
    assert result is not None
    assert result["steps"] == len(batches) == steps
    assert result["short_run"].startswith(f"This run takes {steps} optimizer steps (1 epochs of {steps}) on 216")


def test_the_advice_is_enough_steps() -> None:
    usual = TrainingConfig()
    for examples in (2, 15, 40, 216, 1000, 2000):
        for changes in ({}, {"batch_size": 16}, {"batch_size": 6, "epochs": 3}, {"epochs": 150}, {"devices": 4}):
            config = dataclasses.replace(usual, **changes)  # type: ignore[arg-type]
            advice = short_run_advice(config, examples) if examples >= 2 * config.devices else None
            if advice is None:
                continue
            words = advice.rpartition("try ")[2].rstrip(".").split()
            given = {
                name.removeprefix("--training."): int(value)
                for name, value in zip(words[::2], words[1::2], strict=True)
            }
            assert given, advice
            assert optimizer_steps(dataclasses.replace(config, **given), examples) >= FEWEST_STEPS, advice  # type: ignore[arg-type]
            assert f"takes {optimizer_steps(config, examples)} optimizer steps" in advice
    assert short_run_advice(usual, 50_000) is None
    assert "--training.batch_size 16 --training.epochs 15" in str(short_run_advice(usual, 216))


def test_a_short_run_says_so_before_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", "digits", "--backbone.width", "0.1", "--family", "vanilla", "--data.train_limit", "100"]
    assert main([*words, "--training.epochs", "1", "--name", "run", "--runs", str(tmp_path)]) == 0
    sentence = json.loads((tmp_path / "run" / "metrics.json").read_text())["short_run"]
    assert "2 optimizer steps" in sentence
    said = capsys.readouterr().err
    assert f"warning: {sentence}" in said.splitlines()
    assert said.index(sentence) < said.index("epoch   1/1")


@given(processes=st.integers(1, 8), accumulate=st.integers(1, 9), total=st.integers(2, 300))
def test_parts_of_uneven_shares_make_up_the_batch(processes: int, accumulate: int, total: int) -> None:
    assume(total >= 2 * processes)
    parts = max(1, min(accumulate, total // processes // 2))
    rows = _rows_of_parts(total, processes, parts)
    assert sum(rows) == total
    assert min(rows) >= 2 * processes, "statistics of a part take two examples of every process"
    for rank in range(processes):
        share = torch.arange(total)[rank::processes]
        own = [len(part) for part in share.tensor_split(parts)]
        assert own == [len(range(rank, part, processes)) for part in rows], "what is drawn for a part fits every share"
