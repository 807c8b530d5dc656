"""The stage: from rows and a base classifier to a composed classifier and its record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mntrain.errors import TrainingError
from mntrain.heads.alpha import scores
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.later_network import LaterNetwork
from mntrain.heads.alpha.problem import AlphaProblem, prepare
from mntrain.heads.alpha.stage import compose_few_classes, find_neighbors
from mntrain.heads.alpha.sweeps import sweep_gamma, sweep_neighbors
from mntrain.heads.alpha.training import AlphaEpoch, CoefficientTraining
from mntrain.heads.classifier import LinearClassifier

Score = Callable[[LinearClassifier], dict[str, float]]
SHORT = AlphaConfig(neighbors=3, epochs=6, batch_size=16)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"network": "shared"},
        {"network": "later"},
        {"optimizer": "adamw", "learning_rate": 0.01},
        {"clamp": "own", "start": "ordinary"},
        {"clamp": "none", "bias": "unchanged", "negatives": 0.0},
        {"source": "many", "reduced": 4, "hidden": 3},
        {"source": "all", "neighbors": 13, "reduced": 0, "redraw": "once"},
    ],
)
def test_a_composition_is_the_record_folded(problem: AlphaProblem, settings: dict[str, Any]) -> None:
    config = replace(SHORT, **settings)
    result = compose_few_classes(problem, config, 0)
    record, base = result.record, problem.classifier
    composes_bias = settings.get("network") != "later" and settings.get("bias") != "unchanged"
    weight, bias = base.weight.astype(np.float64), base.bias.astype(np.float64)
    expected = (weight.copy(), bias.copy())
    for members, shares in zip(record.neighbors.members, record.coefficients, strict=True):
        expected[0][members[0]] = shares @ weight[members]
        if composes_bias:
            expected[1][members[0]] = shares @ bias[members]
    np.testing.assert_allclose(result.classifier.weight, expected[0], atol=1e-6)
    np.testing.assert_allclose(result.classifier.bias, expected[1], atol=1e-6)
    again = compose_few_classes(problem, config, 0)
    assert again.classifier.weight.tobytes() == result.classifier.weight.tobytes()
    assert [epoch.epoch for epoch in record.curve] == list(range(1, 7))


def test_the_loss_falls_and_coefficients_leave_the_start(problem: AlphaProblem) -> None:
    record = compose_few_classes(problem, replace(SHORT, epochs=30, redraw="once"), 0).record
    losses = [epoch.loss for epoch in record.curve]
    assert losses[-1] < 0.97 * losses[0]
    assert record.coefficients.std(axis=0).min() > 0.01
    assert [epoch.learning_rate for epoch in record.curve[::20]] == pytest.approx([0.1, 0.01])


def test_few_classes_gain(problem: AlphaProblem, accuracy: Score) -> None:
    """The base classifier of the test is random, so any composition by labels is better on training rows."""
    composed = compose_few_classes(problem, replace(SHORT, clamp="none", negatives=0.0, epochs=30), 0).classifier
    assert accuracy(composed)["few"] > accuracy(problem.classifier)["few"] + 0.2


def test_the_later_network_has_one_and_shares_of_magnitude_one(problem: AlphaProblem) -> None:
    record = compose_few_classes(problem, replace(SHORT, network="later"), 0).record
    assert (record.coefficients[:, 0] == 1).all()
    np.testing.assert_allclose(np.abs(record.coefficients[:, 1:]).sum(axis=1), 1, atol=1e-6)
    assert (record.coefficients[:, 1:] < 0).any()
    config = record.config
    assert (config.optimizer, config.learning_rate, config.weight_decay) == ("adamw", 1e-3, 0.01)
    assert (config.drop_every, config.hidden, config.reduced, config.bias) == (10, 32, 0, "unchanged")


def test_the_later_network_is_the_written_out_one() -> None:
    inputs = 50 * torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    network = LaterNetwork(inputs, 5, 3, torch.Generator().manual_seed(1))
    values = [value.detach() for value in network.parameters()]
    hidden = inputs
    for weight, bias in zip(values[:6:2], values[1:6:2], strict=True):
        before = hidden @ weight.T + bias
        hidden = torch.where(before > 0, before, 0.01 * before)
    raw = hidden @ values[6].T + values[7]
    assert ((raw < 0).any(dim=1) & (raw > 0).any(dim=1)).any(), "a last leaky ReLU would not show otherwise"
    expected = torch.cat([torch.ones(4, 1), raw / raw.abs().sum(dim=1, keepdim=True)], dim=1)
    torch.testing.assert_close(network().detach(), expected)


def test_the_record_is_plain_values_with_names(problem: AlphaProblem) -> None:
    result = compose_few_classes(problem, SHORT, 7)
    values = json.loads(json.dumps(result.record.to_dict(), allow_nan=False))
    assert values["seed"] == 7
    assert values["settings"]["gamma"] == 0.7
    assert values["settings"]["reduced"] == values["settings"]["hidden"] == 7
    first = values["compositions"][0]
    assert (first["class"], first["name"]) == (9, "class 9")
    assert first["coefficient"] == pytest.approx(result.record.coefficients[0, 0])
    distances = [neighbor["distance"] for neighbor in first["neighbors"]]
    assert distances == sorted(distances)
    assert all(neighbor["name"] == f"class {neighbor['class']}" for neighbor in first["neighbors"])
    assert len(values["curve"]) == 6


def test_logits_that_are_not_kept_give_the_same(problem: AlphaProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = compose_few_classes(problem, SHORT, 0).record
    monkeypatch.setattr(scores, "MOST_CACHED", 0)
    computed = compose_few_classes(prepare(problem.data, problem.classifier), SHORT, 0).record
    np.testing.assert_allclose(computed.coefficients, kept.coefficients, atol=1e-4)


def test_epochs_are_told_while_they_pass(problem: AlphaProblem) -> None:
    told: list[AlphaEpoch] = []
    record = compose_few_classes(problem, SHORT, 0, told.append).record
    assert tuple(told) == record.curve


def test_a_loss_that_is_not_finite_ends_with_a_remedy(problem: AlphaProblem) -> None:
    huge = LinearClassifier(weight=problem.classifier.weight * np.float32(1e18), bias=problem.classifier.bias)
    with pytest.raises(TrainingError, match=r"not finite in epoch 1; lower alpha\.learning_rate \(9\)"):
        compose_few_classes(prepare(problem.data, huge), replace(SHORT, clamp="none", learning_rate=9.0), 0)


def test_sweeps_compose_with_each_value(problem: AlphaProblem) -> None:
    gammas = sweep_gamma(problem, SHORT, 0, (0.2, 0.7))
    own = compose_few_classes(problem, SHORT, 0).classifier
    assert list(gammas) == [0.2, 0.7]
    assert gammas[0.7].classifier.weight.tobytes() == own.weight.tobytes()
    assert gammas[0.2].record.coefficients[:, 0].max() <= 0.2 + 1e-6
    counts = sweep_neighbors(problem, SHORT, 0, (2, 5, 9, 10))  # there are nine base classes
    assert [(count, result.record.coefficients.shape[1]) for count, result in counts.items()] == [
        (2, 3),
        (5, 6),
        (9, 10),
    ]


class FreeCoefficients(nn.Module):
    """Coefficients that are parameters themselves, without bounds."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.values = nn.Parameter(start.clone())

    def forward(self) -> torch.Tensor:
        return self.values.clone()

    def share_at_bounds(self, coefficients: torch.Tensor) -> float:
        return 0.0


def test_steps_have_momentum_decay_and_drops_as_set(problem: AlphaProblem) -> None:
    config = replace(SHORT, epochs=4, momentum=0.7, weight_decay=0.05, learning_rate=0.2, drop_every=2, drop_factor=0.5)
    members = find_neighbors(problem, config).members
    composed = scores.ComposedScores(problem.logits, members, compose_bias=True)
    start = torch.full(members.shape, 0.3)
    rows = [np.arange(place, 300, 11) for place in range(4)]
    network: Any = FreeCoefficients(start)
    training = CoefficientTraining(
        network=network,
        logits=problem.logits,
        scores=composed,
        rows=iter(rows),  # type: ignore[arg-type]
        config=replace(config, optimizer="sgd"),
    )
    training.run()
    expected, speed = start.clone().requires_grad_(), torch.zeros_like(start)
    for epoch, of_epoch in enumerate(rows):
        for batch in (of_epoch[:16], of_epoch[16:]):
            loss = nn.functional.cross_entropy(
                composed(batch, expected), problem.logits.labels[torch.from_numpy(batch)]
            )
            (gradient,) = torch.autograd.grad(loss, expected)
            with torch.no_grad():
                speed.mul_(0.7).add_(gradient + 0.05 * expected)
                expected.sub_(0.2 * 0.5 ** (epoch // 2) * speed)
    torch.testing.assert_close(network.values.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
