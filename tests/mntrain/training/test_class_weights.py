"""Weights of classes, on a set of which one class makes a twentieth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from torch.nn.functional import cross_entropy

from mntrain.artifact import load_artifact
from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.models.base import Batch
from mntrain.models.families import FAMILIES
from mntrain.training.class_weights import balanced_weights
from mntrain.training.fit import fit
from mntrain.training.run_folder import FitOptions

ROWS = 600


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """95 % of one class and 5 % of another, which overlap."""
    dice = np.random.default_rng(0)
    rare = np.arange(ROWS) % 20 == 0
    table = pandas.DataFrame(dice.normal(0, 1, (ROWS, 2)) + 1.5 * rare[:, None], columns=["a", "b"])
    path = tmp_path_factory.mktemp("uneven") / "table.csv"
    table.assign(label=np.where(rare, "rare", "common")).to_csv(path, index=False)
    return path


def train(table: Path, folder: Path, *words: str) -> Any:
    path = ["--data.path", str(table), "--data.target", "class", "--backbone.name", "identity"]
    settings = ["--training.epochs", "12", "--training.batch_size", "32", "--training.learning_rate", "0.02"]
    small = ["--meta_neighborhoods.entries", "10", "--training.accelerator", "cpu"]
    heads = ["--vanilla.head", "dot", "--meta_neighborhoods.head", "dot", "--name", "run"]
    config = load_experiment("uci", [*path, *settings, *small, *heads, *words])
    return fit(config, FitOptions(runs=folder, quiet=True, overwrite=True))


def recalls(folder: Path, table: Path) -> dict[str, float]:
    artifact = load_artifact(folder / "run" / "artifact")
    rows = pandas.read_csv(table)
    with torch.inference_mode():
        inputs = artifact.preprocessing(torch.from_numpy(rows[["a", "b"]].to_numpy(np.float32)))
        answers = np.array(artifact.config.labels)[artifact.model(inputs)[0].argmax(-1).numpy()]
    return {kind: float(np.mean(answers[rows["label"] == kind] == kind)) for kind in ("rare", "common")}


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_balanced_weights_find_the_rare_class(family: str, uneven: Path, tmp_path: Path) -> None:
    plain = train(uneven, tmp_path / "plain", "--family", family)
    weighted = train(uneven, tmp_path / "weighted", "--family", family, "--training.class_weights", "balanced")
    before, after = (recalls(tmp_path / name, uneven) for name in ("plain", "weighted"))
    assert before["rare"] < 0.5
    assert after["rare"] > 0.75, "a rare example counts as nineteen common ones"
    assert after["common"] > 0.75
    # The metrics are those of the plain loss, which weights do not lower.
    assert weighted["test"]["loss"] > plain["test"]["loss"]


def test_weights_have_the_mean_1_over_the_examples() -> None:
    labels = np.repeat([0, 1, 3], [95, 4, 1])
    weights = balanced_weights(labels, 4)
    np.testing.assert_allclose(weights, [100 / (3 * 95), 100 / (3 * 4), 0, 100 / 3], rtol=1e-6)
    assert weights[labels].mean() == pytest.approx(1)


@pytest.mark.parametrize("family", ["vanilla", "meta_neighborhoods"])
def test_the_loss_is_the_weighted_mean_and_that_of_the_auxiliary_head_too(family: str) -> None:
    torch.manual_seed(0)
    entry = FAMILIES[family]
    auxiliary = {"auxiliary": 0.5, "entries": 5, "dropout": 0.0} if family == "meta_neighborhoods" else {}
    backbone = torch.nn.Flatten()
    backbone.features = 6  # type: ignore[assignment]
    model: Any = entry.build(entry.config(**auxiliary), lambda: backbone, 3)
    before = dict(model.state_dict())
    weights = torch.tensor([0.5, 2.0, 4.0])
    model.weigh_classes(weights)
    assert model.state_dict().keys() == before.keys(), "weights are no part of any file"
    batch = Batch(torch.randn(8, 6), torch.arange(8) % 3)
    loss, prediction = model.loss(batch)

    def weighted(logits: torch.Tensor) -> torch.Tensor:
        return (weights[batch.targets] * cross_entropy(logits, batch.targets, reduction="none")).mean()

    expected = weighted(prediction.logits)
    if auxiliary:
        expected = expected + 0.5 * weighted(model.auxiliary_head(batch.inputs))
    torch.testing.assert_close(loss, expected)


def test_the_reported_loss_of_training_is_the_plain_one(uneven: Path, tmp_path: Path) -> None:
    """The first epoch at a rate of almost nothing: losses are those of the untrained network."""
    still = ["--family", "vanilla", "--training.epochs", "1", "--training.learning_rate", "1e-9"]
    for name, words in (("plain", []), ("weighted", ["--training.class_weights", "balanced"])):
        train(uneven, tmp_path / name, *still, *words)
    rows = [(tmp_path / name / "run" / "metrics.csv").read_text() for name in ("plain", "weighted")]
    losses = [float(row.splitlines()[1].split(",")[2]) for row in rows]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_families_and_targets_without_such_a_loss_are_refused(uneven: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lowers focal losses"):
        train(uneven, tmp_path, "--family", "maxl", "--training.class_weights", "balanced")
    values = ["--data.target", "value", "--data.path", str(tmp_path / "values.csv"), "--backbone.name", "mlp"]
    pandas.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("aby")).to_csv(
        tmp_path / "values.csv", index=False
    )
    reset = ["--vanilla.head", "cosine", "--meta_neighborhoods.head", "cosine"]
    with pytest.raises(ConfigError, match="targets are values, which have no classes"):
        train(uneven, tmp_path, *values, *reset, "--training.class_weights", "balanced")
    with pytest.raises(ConfigError, match=r"class_weights"):
        load_experiment("digits", ["--training.class_weights", "even"])
