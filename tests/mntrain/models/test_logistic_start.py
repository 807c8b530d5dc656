"""Start of a dot head from logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

from mntrain.config import load_experiment
from mntrain.errors import ConfigError
from mntrain.models.build import build_model
from mntrain.models.data_start import StartsFromData
from mntrain.models.meta_neighborhoods import logistic
from mntrain.models.meta_neighborhoods.logistic import logistic_weights


def _rows(classes: int, count: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(0)
    labels = np.arange(count) % classes
    rows = random.normal(size=(classes, 4))[labels] + random.normal(size=(count, 4))
    return torch.from_numpy(rows).float(), torch.from_numpy(labels)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_weights_are_where_the_penalised_loss_is_level(monkeypatch: pytest.MonkeyPatch, classes: int) -> None:
    """Gradient of Σ CE + ‖w‖² / 2C by autograd; two classes share one vector, whose halves stand on either side."""
    penalty = 0.5
    monkeypatch.setattr(logistic, "_PENALTIES", (penalty,))
    rows, labels = _rows(classes)
    weights = logistic_weights(rows, labels, classes, seed=0).double().requires_grad_()
    logits = rows.double() @ weights[:, :-1].T + weights[:, -1]
    factor = 2.0 if classes == 2 else 1.0  # ‖w‖² of the one vector w = 2 w₁
    loss = cross_entropy(logits, labels, reduction="sum") + factor * weights[:, :-1].square().sum() / (2 * penalty)
    (gradient,) = torch.autograd.grad(loss, weights)
    assert gradient.abs().max() < 0.05
    assert loss < cross_entropy(torch.zeros_like(logits), labels, reduction="sum")


def test_a_class_without_examples_is_the_least_likely() -> None:
    rows, labels = _rows(3)
    weights = logistic_weights(rows, labels, 5, seed=0)
    logits = rows @ weights[:, :-1].T + weights[:, -1]
    assert logits.argmax(dim=1).max() < 3
    assert (weights[3:, :-1] == 0).all()


def test_classes_of_few_examples_and_a_single_class_are_fitted() -> None:
    rows, labels = _rows(3, 9)
    assert logistic_weights(rows, labels, 3, seed=0).isfinite().all()
    assert logistic_weights(rows, torch.zeros_like(labels), 3, seed=0).isfinite().all()


def test_a_model_starts_with_these_weights_and_no_warm_up() -> None:
    config = load_experiment("features", ["--meta_neighborhoods.entries", "12", "--mn.temperature", "0.1"])
    model = build_model(config, (4,), 3)
    assert isinstance(model, StartsFromData)
    assert model.warm_up(40, trained=False) == 0
    rows, labels = _rows(3)
    model.eval()
    model.start_from(rows, labels, seed=5)
    unadapted = model(rows)[1]
    expected = logistic_weights(rows, labels, 3, seed=5)
    torch.testing.assert_close(unadapted, rows @ expected[:, :-1].T + expected[:, -1], atol=1e-5, rtol=1e-5)
    assert one_hot(labels, 3)[torch.arange(len(labels)), unadapted.argmax(dim=1)].float().mean() > 0.6


def test_the_rate_of_the_head_is_a_setting() -> None:
    config = load_experiment("features", ["--mn.head_rate", "0"])
    rates = {group.name: group.rate for group in build_model(config, (4,), 3).parameter_groups()}
    assert rates["head"] == 0.0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--mn.head", "cosine"], "head_start is 'logistic'"),
        (["--mn.init", "paper"], "head_start is 'logistic'"),
        (["--mn.head_rate", "-1"], "head_rate is -1.0"),
        (["--training.head_decay", "-1"], "head_decay is -1.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(words: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_experiment("features", words)
