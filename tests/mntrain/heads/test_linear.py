"""Classifiers learned by SGD: a written-out step, draws, folding, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from mntrain.data.classes.order import Sampling
from mntrain.errors import ConfigError, TrainingError
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.methods.linear import LogitScales, crt, joint, lws
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.settings import HeadSections, HeadSettings
from mntrain.heads.sgd import SgdPlan, step_count, train_by_sgd


def with_settings(problem: HeadProblem, **values: object) -> HeadProblem:
    """The problem with some settings changed."""
    return replace(problem, settings=HeadSections(head=replace(problem.settings.head, **values)))  # type: ignore[arg-type]


def test_a_step_follows_the_gradient_of_the_cross_entropy_and_of_weight_decay(problem: HeadProblem) -> None:
    split, scale = problem.store.train, problem.scale
    layer = nn.Linear(problem.store.features, problem.store.classes)
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    settings = HeadSettings(batch_size=len(split), weight_decay=0.1)
    plan = SgdPlan(settings=settings, sampling="instance", steps=1, rate=0.5, seed=0)
    assert train_by_sgd(layer, split, scale, plan)
    inputs = scale.rows(split.features).astype(np.float64)
    errors = np.exp(inputs @ weight.T + bias)
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(split)), split.labels] -= 1
    expected = weight - 0.5 * (errors.T @ inputs / len(split) + 0.1 * weight)
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected, atol=1e-6)
    expected_bias = bias - 0.5 * (errors.mean(axis=0) + 0.1 * bias)
    np.testing.assert_allclose(layer.bias.detach().numpy(), expected_bias, atol=1e-6)


def test_steps_have_momentum_and_a_rate_that_falls_along_half_a_cosine(problem: HeadProblem) -> None:
    """All rows make one batch, so that the loss of every step is the same function."""
    split, scale, steps = problem.store.train, problem.scale, 6
    layer = nn.Linear(problem.store.features, problem.store.classes)
    weight, bias = (value.detach().clone().requires_grad_() for value in (layer.weight, layer.bias))
    settings = HeadSettings(batch_size=len(split), momentum=0.8, weight_decay=0.01)
    plan = SgdPlan(settings=settings, sampling="instance", steps=steps, rate=0.3, seed=0)
    assert train_by_sgd(layer, split, scale, plan)
    inputs, labels = torch.from_numpy(scale.rows(split.features)), torch.from_numpy(split.labels)
    speeds = [torch.zeros_like(weight), torch.zeros_like(bias)]
    for step in range(steps):
        loss = nn.functional.cross_entropy(inputs @ weight.T + bias, labels)
        gradients = torch.autograd.grad(loss, [weight, bias])
        with torch.no_grad():
            for value, speed, gradient in zip((weight, bias), speeds, gradients, strict=True):
                speed.mul_(0.8).add_(gradient + 0.01 * value)
                value.sub_(0.3 * (1 + math.cos(math.pi * step / steps)) / 2 * speed)
    torch.testing.assert_close(layer.weight.detach(), weight.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(layer.bias.detach(), bias.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", [crt, lws])
def test_the_draw_of_crt_and_lws_is_the_one_that_is_set(
    problem: HeadProblem, base: HeadResult, method: Callable[[HeadProblem], HeadResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def failing(layer: nn.Module, split: FeatureSplit, scale: FeatureScale, plan: SgdPlan) -> bool:
        drawn.append(plan.sampling)
        return False

    monkeypatch.setattr("mntrain.heads.methods.linear.train_by_sgd", failing)
    for sampling in ("class_balanced", "square_root"):
        with pytest.raises(TrainingError):
            method(with_settings(replace(problem, start=base), sampling=sampling))
    assert HeadSettings().sampling == "class_balanced"
    assert drawn == ["class_balanced", "square_root"]


@pytest.mark.parametrize("sampling", ["instance", "class_balanced"])
def test_classes_are_seen_as_often_as_the_draw_says(problem: HeadProblem, sampling: Sampling) -> None:
    """The bias alone, trained from 0 with a small rate, moves towards the classes that are seen more."""

    class Bias(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(8))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.bias.expand(len(inputs), -1)

    layer = Bias()
    settings = HeadSettings(batch_size=85, weight_decay=0.0, momentum=0.0)
    plan = SgdPlan(settings=settings, sampling=sampling, steps=400, rate=1.0, seed=0)
    assert train_by_sgd(layer, problem.store.train, problem.scale, plan)
    shares = torch.softmax(layer.bias.detach(), dim=0).numpy()
    expected = problem.store.counts / 425 if sampling == "instance" else np.full(8, 1 / 8)
    np.testing.assert_allclose(shares, expected, atol=0.02)


def test_the_same_seed_gives_the_same_classifier(problem: HeadProblem, base: HeadResult) -> None:
    again, other = joint(problem), joint(replace(problem, seed=1))
    assert base.linear is not None
    assert again.linear is not None
    assert other.linear is not None
    np.testing.assert_array_equal(base.linear.weight, again.linear.weight)
    assert not np.array_equal(base.linear.weight, other.linear.weight)


def test_balanced_draws_help_classes_of_few(problem: HeadProblem, base: HeadResult) -> None:
    few = {
        name: problem.on_validation(head.predictor).groups["few"].accuracy
        for name, head in {"joint": base, "crt": crt(problem)}.items()
    }
    assert few["crt"] > few["joint"]


def test_scales_of_logits_are_folded(problem: HeadProblem, base: HeadResult) -> None:
    assert base.linear is not None
    result = lws(replace(problem, start=base))
    assert result.linear is not None
    scales = np.array(result.chosen["scales"])
    assert np.ptp(scales) > 0.01
    before = base.linear.logits(problem.store.test.features)
    np.testing.assert_allclose(result.linear.logits(problem.store.test.features), scales * before, atol=2e-4)


def test_scaled_logits_are_those_of_the_classifier_times_the_scales() -> None:
    layer = LogitScales(torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([0.5, 0.0]))
    layer.scales.data = torch.tensor([2.0, 3.0])
    assert layer(torch.tensor([[1.0, 1.0]])).tolist() == [[7.0, -3.0]]
    assert [name for name, _ in layer.named_parameters()] == ["scales"]


def test_the_networks_own_layer_is_the_base_where_asked_for(problem: HeadProblem) -> None:
    result = joint(with_settings(problem, base="network"))
    assert result.predictor is problem.store.classifier
    np.testing.assert_array_equal(result.scale.mean, 0)
    bare = replace(problem, store=replace(problem.store, classifier=None))
    with pytest.raises(ConfigError, match=r"has no last layer.*leave --head.base out"):
        joint(with_settings(bare, base="network"))


def test_the_rate_is_chosen_on_the_validation_rows(problem: HeadProblem) -> None:
    free = joint(with_settings(problem, learning_rate=0.0))
    rates = (0.002, 0.02, 0.2, 2.0)  # the last one since the third is the best of the first three
    ranks = {rate: problem.rank(joint(with_settings(problem, learning_rate=rate)).predictor) for rate in rates}
    assert max(rates[:3], key=ranks.__getitem__) == 0.2
    assert free.chosen["learning_rate"] == max(ranks, key=ranks.__getitem__)


def test_weights_that_are_not_finite_are_told(problem: HeadProblem) -> None:
    wild = with_settings(problem, learning_rate=99.0, weight_decay=9.0, least_steps=200)
    with pytest.raises(
        TrainingError, match=r"'joint' ends in weights that are not finite.*99; lower --head.learning_rate"
    ):
        joint(wild)


def test_small_stores_are_learned_for_a_number_of_steps() -> None:
    settings = HeadSettings(batch_size=512, least_steps=1000)
    assert step_count(settings, rows=300, epochs=10) == 1000
    assert step_count(settings, rows=512_000, epochs=10) == 10_000
    assert step_count(replace(settings, epochs=2), rows=512_000, epochs=10) == 2000
