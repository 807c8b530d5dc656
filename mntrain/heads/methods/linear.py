"""Linear classifiers learned by SGD: joint, cRT and LWS (Kang et al. 2020, "Decoupling Representation and Classifier").

Shapes: B batch, d features, C classes. inputs [B, d], logits [B, C].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mntrain.data.classes.order import Sampling
from mntrain.errors import DataError
from mntrain.heads.classifier import LinearClassifier
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.grid import WORST, Rank
from mntrain.heads.methods.checks import check_joint
from mntrain.heads.problem import HeadProblem, HeadResult
from mntrain.heads.sgd import SgdPlan, rates_of, step_count, train_by_sgd, unlearned


class LogitScales(nn.Module):
    """Compute logits_c = s_c (w_c · x + b_c) with learned scales s, from 1 on, of a classifier that stays.

    Args:
        weight: w float32 [C, d].
        bias: b float32 [C].
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.scales = nn.Parameter(torch.ones(len(bias)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs [B, d] → logits [B, C]."""
        return self.scales * torch.addmm(self.bias, inputs, self.weight.mT)


def joint(problem: HeadProblem) -> HeadResult:
    """Train a linear probe, every row alike; with ``head.base`` network take the network's own last layer.

    Raises:
        ConfigError: the network has no last layer that is known.
    """
    check_joint(problem)
    if problem.settings.head.base == "network":
        own = problem.store.classifier
        assert own is not None
        identity = FeatureScale.identity(own.features)
        return HeadResult(predictor=own, scale=identity, chosen={"classifier": "the network's own last layer"})
    return _learned(problem, lambda: _new_layer(problem), "instance", 90)


def crt(problem: HeadProblem) -> HeadResult:
    """Train a new classifier on rows drawn class by class (cRT, Kang et al. 2020, section 4.1)."""
    return _learned(problem, lambda: _new_layer(problem), problem.settings.head.sampling, 10)


def lws(problem: HeadProblem) -> HeadResult:
    """Learn one scale for each class, on the whole logit, of a classifier that stays (LWS, section 4.1).

    Weight decay acts on the scales.
    """
    classifier, scale = problem.base()
    weight, bias = scale.unfolded(classifier)
    weights = torch.from_numpy(weight.astype(np.float32)), torch.from_numpy(bias.astype(np.float32))
    return _learned(problem, lambda: LogitScales(*weights), problem.settings.head.sampling, 5, scale)


def _new_layer(problem: HeadProblem) -> nn.Linear:
    torch.manual_seed(problem.seed)
    return nn.Linear(problem.store.features, problem.store.classes)


def _learned(
    problem: HeadProblem,
    build: Callable[[], nn.Linear | LogitScales],
    sampling: Sampling,
    epochs: int,
    scale: FeatureScale | None = None,
) -> HeadResult:
    """Train a layer with each learning rate, and keep the best on the validation rows.

    Raises:
        TrainingError: no rate gives finite weights.
    """
    settings, scale = problem.settings.head, scale or problem.scale
    steps = step_count(settings, len(problem.store.train), epochs)
    found: dict[float, tuple[LinearClassifier, dict[str, Any]]] = {}

    def rank(rate: float) -> Rank:
        plan = SgdPlan(settings=settings, sampling=sampling, steps=steps, rate=rate, seed=problem.seed)
        with torch.random.fork_rng(devices=[]):
            layer = build()
        if not train_by_sgd(layer, problem.store.train, scale, plan):
            return WORST
        try:
            found[rate] = _classifier_of(layer, scale)
        except DataError:  # weights that are numbers only until the standardisation is folded in
            return WORST
        return problem.rank(found[rate][0])

    choice = rates_of(settings).choose(rank)
    if choice.value not in found:
        raise unlearned(problem.method, choice)
    classifier, learned = found[choice.value]
    chosen = {"learning_rate": choice.value, "steps": steps, "sampling": sampling, **learned}
    return HeadResult(predictor=classifier, scale=scale, chosen=chosen, notes=choice.notes)


def _classifier_of(layer: nn.Linear | LogitScales, scale: FeatureScale) -> tuple[LinearClassifier, dict[str, Any]]:
    """Fold the standardisation, and scales of logits, into a classifier of the features themselves."""
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    if isinstance(layer, nn.Linear):
        return scale.folded(weight, bias), {}
    scales = layer.scales.detach().double().numpy()
    return scale.folded(scales[:, None] * weight, scales * bias), {"scales": scales.tolist()}
