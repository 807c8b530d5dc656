"""Predictors that no memory holds: counted beside a count by hand, and refused before they are built."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.commands.cli import main
from mntrain.layers.similarity.blocks import _CPU_BYTES
from mntrain.layers.similarity.config import SimilarityConfig
from mntrain.models.families import FAMILIES
from mntrain.models.vanilla.config import VanillaConfig
from mntrain.models.vanilla.model import Vanilla
from mntrain.training import step_memory as module
from mntrain.training.step_memory import StepSize, step_memory
from mntrain.training_config import TrainingConfig

SHAPE = (3, 32, 32)
POSITIONS = 2 * 32**2 + 3 * 16**2 + 3 * 8**2
"""Of all layers of cnn9 with similarity."""
SMALL = ("--backbone.width", "0.1", "--training.epochs", "1", "--data.train_limit", "64", "--family", "vanilla")


def model(device: str = "meta", **settings: Any) -> Vanilla:
    config = BackboneConfig(name="cnn9", width=0.25, similarity=SimilarityConfig(**settings))
    with torch.device(device):
        built = FAMILIES["vanilla"].build(VanillaConfig(), partial(build_backbone, config, SHAPE), 10)
    assert isinstance(built, Vanilla)
    return built


def total(rows: int = 4, training: TrainingConfig | None = None, *, step: bool = True, **settings: Any) -> int:
    classifier = model(**settings)
    size = StepSize(rows=rows, shape=SHAPE, training=step)
    return step_memory(classifier, classifier.backbone, size, training or TrainingConfig()).total


def test_hidden_channels_count_as_by_hand() -> None:
    # Kept are products and quotient of the sphere, which division and normalisation read, and what ReLU answers.
    maps = 3 * 4 * POSITIONS * 4
    inputs = sum(8 * width * 9 for width in (1, 1, 1, 2, 2, 2, 4, 4))
    weights = (inputs + 8 * 9 * 9 + 8 * 2) * 4 * 3  # and two running means of AdamW
    grown = total(mode="dynamic", hidden=164) - total(mode="dynamic", hidden=64)
    assert grown == pytest.approx(100 * (maps + weights), rel=0.02)


def test_what_takes_none_on_meta_is_what_a_real_step_takes() -> None:
    found = []
    for device in ("meta", "cpu"):
        classifier = model(device, mode="dynamic", kind="unconstrained", hidden=8, kernel_shape=True)
        for training in (True, False):
            size = StepSize(rows=2, shape=SHAPE, training=training)
            found.append(step_memory(classifier, classifier.backbone, size, TrainingConfig()).total)
    # On meta a product that is written into a block's room takes the room twice: a block, at most.
    assert 0 <= found[0] - found[2] <= _CPU_BYTES
    assert found[1] == found[3]
    assert found[0] > found[1]
    assert all(value.grad is None for value in classifier.parameters())


def test_lower_precision_compilation_and_answers_alone_count_for_less() -> None:
    full = total(mode="dynamic")
    assert total(mode="dynamic", training=TrainingConfig(precision="bf16-mixed")) < 0.7 * full
    assert total(mode="dynamic", training=TrainingConfig(compile=True)) < 0.3 * full
    assert total(mode="dynamic", training=TrainingConfig(optimizer="sgd")) < full
    assert total(mode="dynamic", step=False) < 0.7 * full


def test_frozen_layers_keep_nothing_for_a_backward_pass() -> None:
    classifier = model(mode="dynamic")
    size = StepSize(rows=4, shape=SHAPE, training=True)
    learned = step_memory(classifier, classifier.backbone, size, TrainingConfig()).total
    nn.Module.requires_grad_(classifier.backbone, False)
    assert step_memory(classifier, classifier.backbone, size, TrainingConfig()).total < 0.5 * learned


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ("mode", "dynamic", "hidden", "4096"),
            ("hidden is 4096", "kernels of 3x3 and 3x3", "a training step of 64 images takes at least", "lower hidden"),
        ),
        (("across_map", "static"), ("across_map is 'static'", "in layer layers.9.1", "leave it out, or lower")),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_built(
    settings: tuple[str, ...],
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "machine_bytes", lambda: 100_000)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    pairs = zip(settings[::2], settings[1::2], strict=True)
    options = [word for name, value in pairs for word in (f"--backbone.similarity.{name}", value)]
    options += ["--backbone.name", "cnn9", "--runs", str(tmp_path)]
    assert main(["fit", "digits", *SMALL, *options]) == 2
    (sentence,) = capsys.readouterr().err.strip().splitlines()
    for part in (*words, "this machine has 0.0001 GB"):
        assert part in sentence
    assert not list(tmp_path.iterdir())


def test_evaluation_counts_by_its_own_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "machine_bytes", lambda: 3_000_000)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = ["--backbone.name", "cnn9", "--runs", str(tmp_path), "--training.batch_size", "2"]
    assert main(["fit", "digits", *SMALL, *options, "--backbone.similarity.mode", "dynamic"]) == 2
    sentence = capsys.readouterr().err
    assert "images at once takes at least" in sentence
    assert "training.evaluation_batch_size" in sentence


def test_an_ordinary_network_is_none_of_its_business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "machine_bytes", lambda: 1)
    options = ["--backbone.name", "cnn9", "--runs", str(tmp_path), "--name", "a", "--json"]
    assert main(["fit", "digits", *SMALL, *options, "--backbone.similarity.mode", "static"]) == 0
