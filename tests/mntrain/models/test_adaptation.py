"""Every head, similarity, number of steps and form of step size against autograd, query by query in float64.

Shapes: B queries, S entries, C classes, d features.
"""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mntrain.layers.attention import SIMILARITIES, Similarity, attention, key_index, similarity, unit
from mntrain.layers.heads import Head, HeadKind, build_head
from mntrain.models.meta_neighborhoods.adaptation import (
    InnerSteps,
    adapted_logits,
    cheapest_form,
    inner_problem,
    weight_change,
)
from mntrain.models.meta_neighborhoods.config import StepSizeForm
from mntrain.models.meta_neighborhoods.dictionary import initial_step_size

BATCH, ENTRIES, CLASSES, FEATURES = 3, 7, 4, 5
TEMPERATURE, EXACT = 0.3, 1e-9
OPTIONS = list(
    itertools.product(["cosine", "dot"], list(SIMILARITIES), [1, 3], ["scalar", "per_feature", "per_parameter"])
)


class Case:
    def __init__(self, head: HeadKind, kind: Similarity, count: int, form: StepSizeForm) -> None:
        torch.manual_seed(0)
        self.kind, self.count = kind, count
        self.head: Head = build_head(head, FEATURES, CLASSES, 10.0).double()
        nn.init.normal_(self.head.weight)
        size = initial_step_size(form, self.head.weight, 0.0).double()
        self.size = torch.rand_like(size).requires_grad_()
        self.features = torch.randn(BATCH, FEATURES, dtype=torch.float64, requires_grad=True)
        self.keys = torch.randn(ENTRIES, FEATURES, dtype=torch.float64, requires_grad=True)
        self.value_logits = torch.randn(ENTRIES, CLASSES, dtype=torch.float64, requires_grad=True)

    def leaves(self) -> list[Tensor]:
        return [self.features, self.keys, self.value_logits, self.size, *self.head.parameters()]

    def oracle(self) -> Tensor:
        pairs = zip(self.features, self.oracle_weights(), strict=True)
        return torch.stack([self.answers(z[None], adapted)[0] for z, adapted in pairs])

    def oracle_weights(self) -> list[Tensor]:
        """Adapted weights of every query, by autograd."""
        values, rows = self.value_logits.softmax(-1), []
        for i in range(BATCH):
            z = self.features[i]
            squared = (z - self.keys).square().sum(-1)
            alike = {"cosine": unit(z) @ unit(self.keys).mT, "euclidean": -squared, "distance": -squared.sqrt()}[
                self.kind
            ]
            weights = (alike / TEMPERATURE).softmax(-1)
            adapted: Tensor = self.head.weight
            for _ in range(self.count):
                loss = -(weights * (values * self.answers(self.keys, adapted).log_softmax(-1)).sum(-1)).sum()
                (gradient,) = torch.autograd.grad(loss, adapted, create_graph=True)
                adapted = adapted - self.size * gradient
            rows.append(adapted)
        return rows

    def answers(self, x: Tensor, weight: Tensor) -> Tensor:
        """Logits by the head's own forward pass, with other weights."""
        out: Tensor = torch.func.functional_call(self.head, {"weight": weight}, (x,))
        return out

    def closed_form(self, form: Any = None) -> Tensor:
        weights = attention(similarity(self.features, key_index(self.keys, self.kind)), TEMPERATURE)
        problem = inner_problem(self.head, self.keys, self.value_logits.softmax(-1))
        steps = InnerSteps(count=self.count, size=self.size)
        chosen = form or cheapest_form(problem, steps)
        return adapted_logits(self.features, weights, problem, self.head.weight, steps, chosen)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)))
def test_logits_and_meta_gradients_equal_autograd(options: Any) -> None:
    case = Case(*options)
    expected = case.oracle()
    direction = torch.randn(BATCH, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    wanted = torch.autograd.grad((expected * direction).sum(), case.leaves(), allow_unused=True)
    for form in ("explicit", None):
        found = case.closed_form(form)
        torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)
        got = torch.autograd.grad((found * direction).sum(), case.leaves(), allow_unused=True)
        for mine, theirs in zip(got, wanted, strict=True):
            assert (mine is None) == (theirs is None)
            if theirs is not None:
                torch.testing.assert_close(mine, theirs, atol=EXACT, rtol=EXACT)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)))
def test_the_change_of_the_weights_is_that_of_autograd(options: Any) -> None:
    case = Case(*options)
    weight = case.head.weight
    expected = torch.stack([(adapted - weight).norm() / weight.norm() for adapted in case.oracle_weights()])
    weights = attention(similarity(case.features, key_index(case.keys, case.kind)), TEMPERATURE)
    problem = inner_problem(case.head, case.keys, case.value_logits.softmax(-1))
    found = weight_change(weights, problem, weight, InnerSteps(count=case.count, size=case.size))
    torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)
    assert expected.min() > 1e-3


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options)))
def test_without_a_step_the_logits_are_those_of_the_head(options: Any) -> None:
    case = Case(*options)
    case.size = torch.zeros_like(case.size)
    torch.testing.assert_close(case.closed_form(), case.head(case.features), atol=EXACT, rtol=0)


@pytest.mark.parametrize(("kind", "power"), [("euclidean", 2), ("distance", 1)])
def test_the_expanded_distance_gives_the_attention_of_the_plain_one(kind: Similarity, power: int) -> None:
    features, keys = torch.randn(4, 5, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
    expected = (-torch.cdist(features, keys).pow(power) / TEMPERATURE).softmax(-1)
    found = attention(similarity(features, key_index(keys, kind)), TEMPERATURE)
    torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)


@pytest.mark.parametrize("kind", SIMILARITIES)
def test_a_query_that_lies_on_a_key_has_a_finite_gradient(kind: Similarity) -> None:
    features = torch.tensor([[0.3, -0.7], [0.0, 0.0]], requires_grad=True)
    keys = features.detach().clone().requires_grad_()
    alike = similarity(features, key_index(keys, kind))
    alike.sum().backward()
    for leaf in (features, keys):
        assert leaf.grad is not None
        assert bool(torch.isfinite(leaf.grad).all())
