"""Options of training: optimiser, schedule, early stopping, kept weights, accumulation, compilation."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from safetensors.torch import load_file
from torch import nn
from torch.optim import SGD

from mntrain.artifact import load_artifact
from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.layers.heads import build_head
from mntrain.models.base import Batch, TrainingPhase
from mntrain.models.vanilla.model import Vanilla
from mntrain.training.evaluation import ACCURACY
from mntrain.training.fit import fit
from mntrain.training.loop import Trainer
from mntrain.training.optimizer import learning_rate_at
from mntrain.training.reporting import PhaseFigures
from mntrain.training.run_folder import FitOptions
from mntrain.training.setup import TrainingData
from mntrain.training_config import TrainingConfig

TINY = ["--backbone.width", "0.25", "--meta_neighborhoods.entries", "20", "--data.train_limit", "256", "--name", "run"]


def run(folder: Path, *overrides: str) -> dict[str, Any]:
    result = fit(
        load_experiment("digits", [*TINY, "--training.epochs", "3", *overrides]), FitOptions(runs=folder, quiet=True)
    )
    assert result is not None
    return result


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(str(folder / "run" / "artifact" / "model.safetensors"))


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_sgd_trains(family: str, tmp_path: Path) -> None:
    words = ["--training.optimizer", "sgd", "--training.learning_rate", "0.05", "--training.weight_decay", "0.0005"]
    assert run(tmp_path, "--family", family, *words, "--training.epochs", "15")["test"]["accuracy"] > 0.5


def test_a_rate_can_drop_again_and_again() -> None:
    config = TrainingConfig(epochs=6, drop_every=2, drop_factor=0.5, learning_rate=0.1)
    assert [learning_rate_at(epoch, config) for epoch in range(6)] == [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]


def test_training_stops_when_patience_ends(tmp_path: Path) -> None:
    # A rate of almost nothing: no epoch is better than the first ones.
    words = ["--training.patience", "2", "--training.learning_rate", "1e-12", "--training.epochs", "30"]
    result = run(tmp_path, *words, "--family", "vanilla")
    assert result["epochs"] == result["best_epoch"] + 2 < 30
    again = fit(
        load_experiment("digits", [*TINY, *words, "--family", "vanilla"]),
        FitOptions(runs=tmp_path, resume=True, quiet=True),
    )
    assert again is not None
    assert again["epochs"] == result["epochs"], "a run that has given up does not go on when resumed"


def test_weights_of_epochs_are_kept(tmp_path: Path) -> None:
    run(tmp_path, "--training.keep_every", "2", "--training.epochs", "4")
    kept = sorted((tmp_path / "run" / "checkpoints").glob("epoch-*.safetensors"))
    assert [file.stem for file in kept] == ["epoch-0000", "epoch-0002", "epoch-0004"]
    weights = [load_file(str(file))["head.weight"] for file in kept]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_accumulated_parts_give_the_gradient_of_the_whole_batch() -> None:
    """Exact for a network without statistics of the batch: parts of 5, 5, 5 and 1 weigh as many images as they hold."""
    moved = []
    for accumulate in (1, 4):
        torch.manual_seed(0)
        fabric = Fabric(accelerator="cpu")
        model, optimizer = fabric.setup(Vanilla(nn.Flatten(), build_head("dot", 12, 3, 1.0)), SGD([torch.zeros(1)]))
        optimizer.param_groups[0] |= {"params": list(model.parameters()), "name": "head", "lr": 0.5}
        model.mark_forward_method("evaluate_objective")
        config = TrainingConfig(accumulate=accumulate)
        unused: Any = None
        data = TrainingData(
            train=unused, validation=unused, test=unused, augment=unused, preprocessing=unused, metric=ACCURACY
        )
        trainer = Trainer(fabric=fabric, model=model, optimizer=optimizer, data=data, config=config, run=unused, seed=0)
        phase = TrainingPhase(objective=model.module.loss, groups=("head",))
        figures = PhaseFigures()
        figures.add_step(trainer._step(phase, Batch(torch.randn(16, 12), torch.arange(16) % 3), 16))
        assert figures.read() is None
        moved.append((model.head.weight.detach().clone(), figures.sums))
    torch.testing.assert_close(moved[1][0], moved[0][0], atol=1e-6, rtol=0)
    torch.testing.assert_close(moved[1][1], moved[0][1], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("images", "batch", "accumulate", "sizes"),
    [
        (256, 10, 4, [3, 3, 3, 2] * 6 + [3, 3, 2, 2] * 19),  # six images over are spread
        (10, 10, 4, [3, 3, 2, 2]),
        (11, 128, 60, [3, 2, 2, 2, 2]),  # a set smaller than a batch has fewer parts
    ],
)
def test_a_batch_is_split_evenly(
    images: int, batch: int, accumulate: int, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch normalisation needs two images in every part."""
    seen: list[int] = []
    loss = Vanilla.loss

    def counted(self: Vanilla, batch: Batch) -> Any:
        seen.append(len(batch.targets))
        return loss(self, batch)

    monkeypatch.setattr(Vanilla, "loss", counted)
    words = ["--training.batch_size", str(batch), "--training.accumulate", str(accumulate), "--training.epochs", "1"]
    run(tmp_path, "--family", "vanilla", "--data.train_limit", str(images), *words)
    assert seen == sizes


@pytest.mark.timeout(960)
def test_a_compiled_network_keeps_its_names_and_learns_the_same(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler on a CPU, and there is no g++ here")
    words = ["--training.epochs", "1", "--family", "vanilla", "--backbone.width", "0.1"]
    plain = run(tmp_path / "plain", *words)
    # In a process of its own: importing the compiler raises deprecation warnings of PyTorch about itself.
    command = [
        sys.executable,
        "-m",
        "mntrain",
        "fit",
        "digits",
        *TINY,
        *words,
        "--training.compile",
        "true",
    ]
    command += ["--runs", str(tmp_path / "compiled"), "--json"]
    # The compiler works for half a minute, and several times as long where other processes take the cores.
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    compiled = json.loads(done.stdout)
    assert weights(tmp_path / "plain").keys() == weights(tmp_path / "compiled").keys()
    assert compiled["validation"]["loss"] == pytest.approx(plain["validation"]["loss"], rel=1e-2)
    assert load_artifact(tmp_path / "compiled" / "run" / "artifact").config.experiment.training.compile


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--training.optimizer", "adam"], "optimizer"),
        (["--training.momentum", "1"], "training.momentum is 1.0"),
        (["--training.accumulate", "0"], "training.accumulate is 0"),
        (["--training.accumulate", "100"], "training.accumulate is 100"),
        (["--training.patience", "-1"], "training.patience is -1"),
        (["--training.batch_size", "9", "--training.devices", "2"], "multiple of the 2 devices"),
    ],
)
def test_refuses_what_cannot_work(words: list[str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment("digits", words)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "words", [["--training.devices", "2"], ["--training.compile", "true"], ["--training.accumulate", "2"]]
)
def test_maxl_says_what_it_cannot_do(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{words[0].removeprefix('--')} is .*'maxl'"):
        run(tmp_path, "--family", "maxl", "--training.accelerator", "cpu", *words)
    assert not torch.distributed.is_initialized(), "no process was started"
    assert not (tmp_path / "run").exists()
