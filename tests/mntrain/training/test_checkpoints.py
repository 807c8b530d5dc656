"""Checkpoints that are damaged, hostile, or cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from mntrain.config import ExperimentConfig, load_experiment
from mntrain.errors import CheckpointError, TrainingError
from mntrain.training import loop, reporting, run_folder
from mntrain.training.checkpoint import TrainingState, load_state, save_state
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.run_folder import FitOptions

TINY = ["--backbone.width", "0.25", "--meta_neighborhoods.entries", "20", "--data.train_limit", "256", "--name", "run"]


def tiny(*overrides: str) -> ExperimentConfig:
    return load_experiment("digits", [*TINY, "--training.epochs", "3", *overrides])


@pytest.mark.parametrize("name", ["last.pt", "best.pt"])
def test_a_damaged_checkpoint_is_named_before_epochs_are_spent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    file = tmp_path / "run" / "checkpoints" / name
    file.write_bytes(file.read_bytes()[:1000])
    monkeypatch.setattr(Trainer, "train", lambda *_: pytest.fail("trained"))
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
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


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    proof = tmp_path / "proof"

    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (proof,)

    torch.save({"schema": 1, "config": Evil()}, tmp_path / "run" / "checkpoints" / "last.pt")
    with pytest.raises(CheckpointError, match="damaged"):
        fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))
    assert not proof.exists()


def test_a_checkpoint_of_another_model_is_explained(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    state = load_state(tmp_path / "run" / "checkpoints" / "last.pt")
    state.model = {}
    save_state(tmp_path / "run" / "checkpoints" / "last.pt", state)
    with pytest.raises(CheckpointError, match=r"does not fit its own configuration.*--overwrite"):
        fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    file = tmp_path / "run" / "checkpoints" / "last.pt"
    content = bytearray(file.read_bytes())
    weights = load_state(file).model["backbone.layers.0.weight"].numpy().tobytes()
    content[content.index(weights) + 3] ^= 0x40
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"last\.pt is damaged"):
        fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))


def shrink_means(state: TrainingState) -> None:
    means = next(iter(state.optimizer["state"].values()))
    means["exp_avg"] = torch.zeros(1)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: setattr(state, "history", []),
        lambda state: setattr(state, "history", [{"accuracy": 1.0}]),
        lambda state: setattr(state, "best_epoch", 77),
        lambda state: setattr(state, "best_epoch", 0),
        lambda state: setattr(state, "epoch", "two"),
        lambda state: setattr(state, "config", [1]),
        shrink_means,
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_damaged(
    change: Callable[[TrainingState], None], tmp_path: Path
) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    file = tmp_path / "run" / "checkpoints" / "last.pt"
    state = load_state(file)
    change(state)
    save_state(file, state)
    with pytest.raises(CheckpointError, match="damaged"):
        fit(tiny(), FitOptions(runs=tmp_path, resume=True, quiet=True))


def test_rests_of_a_killed_save_are_removed(tmp_path: Path) -> None:
    fit(tiny("--training.epochs", "1"), FitOptions(runs=tmp_path, quiet=True))
    left = tmp_path / "run" / "checkpoints" / ".last.pt.abc123"
    left.write_bytes(b"half")
    fit(tiny("--training.epochs", "2", "--training.drop_at", "1"), FitOptions(runs=tmp_path, resume=True, quiet=True))
    assert not left.exists()


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


def full_disk_of_safetensors(*_: Any) -> None:
    raise SafetensorError("I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("module", "name", "failing"),
    [
        (run_folder, "save_file", full_disk_of_safetensors),
        (reporting.SummaryWriter, "add_scalar", full_disk),
        (reporting.SummaryWriter, "__init__", full_disk),
        (loop, "write_csv", full_disk),
    ],
)
def test_a_disk_that_is_full_is_a_sentence(
    module: Any, name: str, failing: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, failing)
    with pytest.raises(TrainingError, match=r"cannot be written: .*No space left on device.*Make room"):
        fit(tiny("--training.keep_every", "1"), FitOptions(runs=tmp_path, quiet=True))
