"""The two rewrites against plain modules of torch.nn, trained by torch.optim.SGD on features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mntrain.heads.alpha.clamp import coefficient_bounds, inside_start
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.inputs import module_inputs, reduce_classifiers
from mntrain.heads.alpha.layers import ModuleShape
from mntrain.heads.alpha.problem import AlphaProblem, prepare
from mntrain.heads.alpha.rows import AlphaData
from mntrain.heads.alpha.scores import ComposedScores
from mntrain.heads.alpha.stage import find_neighbors
from mntrain.heads.alpha.straight_modules import StraightModules
from mntrain.heads.alpha.tracked_modules import TrackedModules
from mntrain.heads.classifier import LinearClassifier

STEPS, BATCH, HIDDEN = 60, 16, 6
CONFIG = AlphaConfig(neighbors=3)


@pytest.fixture(scope="module")
def exact(data: AlphaData, classifier: LinearClassifier) -> AlphaProblem:
    return prepare(data, classifier, dtype=np.float64)


def plain_modules(straight: StraightModules) -> nn.ModuleList:
    """The same weights in modules written with torch.nn."""
    modules = nn.ModuleList()
    for index in range(len(straight.weight)):
        first = nn.Linear(straight.weight.shape[2], HIDDEN, dtype=torch.float64)
        second = nn.Linear(HIDDEN, CONFIG.neighbors + 1, dtype=torch.float64)
        with torch.no_grad():
            first.weight.copy_(straight.weight[index])
            first.bias.copy_(straight.bias[index])
            second.weight.copy_(straight.second.weight[index])
            second.bias.copy_(straight.second.bias[index])
        modules.append(nn.Sequential(first, nn.ReLU(), second))
    return modules


def composed_logits(problem: AlphaProblem, members: Any, rows: Any, coefficients: Tensor) -> Tensor:
    """Equations 1 to 4 on features, class by class."""
    weight = torch.from_numpy(problem.classifier.weight).double()
    bias = torch.from_numpy(problem.classifier.bias).double()
    composed = {int(parts[0]): index for index, parts in enumerate(members)}
    features = torch.from_numpy(problem.data.split.features[rows]).double()
    scores = []
    for label in range(len(weight)):
        if label in composed:
            parts, shares = members[composed[label]], coefficients[composed[label]]
            scores.append(features @ (shares @ weight[parts]) + shares @ bias[parts])
        else:
            scores.append(features @ weight[label] + bias[label])
    return torch.stack(scores, dim=1)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("start", "settings"),
    [
        ("ordinary", {}),
        ("ordinary", {"momentum": 0.9}),
        ("ordinary", {"momentum": 0.9, "weight_decay": 0.05}),
        ("inside", {"momentum": 0.9, "weight_decay": 0.05}),
    ],
    ids=["plain", "momentum", "decay", "inside"],
)
def test_tracked_modules_on_base_logits_take_the_steps_of_straight_ones(
    exact: AlphaProblem, shared: bool, start: str, settings: dict[str, Any]
) -> None:
    members = find_neighbors(exact, CONFIG).members
    reduced = reduce_classifiers(exact.weight, 5)
    inputs = torch.from_numpy(module_inputs(reduced, members))
    sizes: dict[str, int] = {"classes": len(members), "inputs": inputs.shape[1], "hidden": HIDDEN}
    shape = ModuleShape(**sizes, outputs=CONFIG.neighbors + 1, shared=shared)
    first = inside_start(CONFIG, torch.float64) if start == "inside" else None
    tracked = TrackedModules(inputs, shape, first, torch.Generator().manual_seed(3))
    plain = plain_modules(StraightModules(inputs, shape, first, torch.Generator().manual_seed(3)))
    bounds = coefficient_bounds(CONFIG, torch.float64)
    scores = ComposedScores(exact.logits, members, compose_bias=True)
    rate = 0.02 if shared else 0.1
    optimizers = [torch.optim.SGD(module.parameters(), rate, **settings) for module in (tracked, plain)]
    random = np.random.default_rng(0)
    began = tracked.hidden.detach().clone()
    for _ in range(STEPS):
        rows = random.choice(len(exact.data.split.labels), BATCH)
        labels = torch.from_numpy(exact.data.split.labels[rows])
        outputs = torch.stack([plain[0 if shared else index](row) for index, row in enumerate(inputs)])
        # Unclamped here and there, so that gradients go on.
        fast, slow = bounds.clamp(tracked()) + 0.1 * tracked(), bounds.clamp(outputs) + 0.1 * outputs
        losses = [scores(rows, fast), composed_logits(exact, members, rows, slow)]
        for optimizer, logits in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)
    assert (tracked.hidden - began).abs().max() > 1e-3  # the first layers have learned
    hidden = [plain[0 if shared else index][0](row) for index, row in enumerate(inputs)]  # type: ignore[index]
    torch.testing.assert_close(tracked.hidden.detach(), torch.stack(hidden).detach(), rtol=0, atol=1e-12)


def test_straight_modules_are_those_of_torch(exact: AlphaProblem) -> None:
    inputs = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for shared in (False, True):
        shape = ModuleShape(classes=4, inputs=9, hidden=HIDDEN, outputs=CONFIG.neighbors + 1, shared=shared)
        straight = StraightModules(inputs, shape, None, torch.Generator().manual_seed(1))
        plain = plain_modules(straight)
        expected = torch.stack([plain[0 if shared else index](row) for index, row in enumerate(inputs)])
        torch.testing.assert_close(straight(), expected, rtol=0, atol=1e-12)


def test_scores_with_kept_biases(exact: AlphaProblem) -> None:
    members = find_neighbors(exact, CONFIG).members
    coefficients = torch.rand(len(members), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = np.arange(0, 300, 7)
    scores = ComposedScores(exact.logits, members, compose_bias=False)(rows, coefficients)
    expected = composed_logits(exact, members, rows, coefficients)
    bias = torch.from_numpy(exact.classifier.bias).double()
    for index, parts in enumerate(members):
        expected[:, parts[0]] += bias[parts[0]] - coefficients[index] @ bias[parts]
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-12)
