"""The closed-form inner update against autograd, materialised for every query in float64.

Shapes: B queries, S entries, C classes, d features.
"""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mntrain.layers.attention import attention, unit
from mntrain.models.meta_neighborhoods.inner import (
    adapted_weight,
    classifier_gradient,
    cosine_problem,
    explicit_logits,
    factored_logits,
)

TEMPERATURE = 0.2
EXACT = 1e-9


@dataclass(frozen=True)
class Parameters:
    query: Tensor
    keys: Tensor
    value_logits: Tensor
    weight: Tensor
    scale: Tensor
    step_size: Tensor

    def leaves(self) -> list[Tensor]:
        return [self.query, self.keys, self.value_logits, self.weight, self.scale, self.step_size]


def draw(batch: int, entries: int, classes: int, features: int, *, step_size: float = 0.7, seed: int = 0) -> Parameters:
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    return Parameters(
        query=leaf(batch, features),
        keys=leaf(entries, features),
        value_logits=leaf(entries, classes),
        weight=leaf(classes, features),
        scale=torch.tensor(10.0, dtype=torch.float64, requires_grad=True),
        step_size=torch.tensor(step_size, dtype=torch.float64, requires_grad=True),
    )


def oracle(p: Parameters, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Adapted weights and logits with the gradient taken by autograd, query by query (eq. 3)."""
    adapted, logits = [], []
    values = p.value_logits.softmax(-1)
    for i in range(len(p.query)):
        scores = unit(p.query[i]) @ unit(p.keys).mT / TEMPERATURE
        if keep is not None:
            scores = scores.masked_fill(~keep[i], float("-inf"))
        weights = scores.softmax(-1)
        log_probabilities = (p.scale * unit(p.keys) @ unit(p.weight).mT).log_softmax(-1)
        loss = -(weights * (values * log_probabilities).sum(-1)).sum()
        (gradient,) = torch.autograd.grad(loss, p.weight, create_graph=True)
        adapted.append(p.weight - p.step_size * gradient)
        logits.append(p.scale * unit(adapted[-1]) @ unit(p.query[i]))
    return torch.stack(adapted), torch.stack(logits)


def closed_form(p: Parameters, form: str, keep: Tensor | None = None) -> Tensor:
    query = unit(p.query)
    problem = cosine_problem(p.keys, p.value_logits.softmax(-1), p.weight, p.scale)
    similarity = query @ problem.keys.mT
    weights = attention(similarity, TEMPERATURE, keep)
    if form == "explicit":
        return explicit_logits(query, weights, problem, p.weight, p.step_size)
    return factored_logits(query, similarity, weights, problem, p.step_size)


@pytest.mark.parametrize("form", ["explicit", "factored"])
@pytest.mark.parametrize("sizes", [(3, 7, 4, 5), (1, 1, 2, 3), (4, 20, 10, 6)])
@pytest.mark.parametrize("step_size", [0.05, 5.0])
def test_logits_and_meta_gradients_equal_autograd(
    form: str, sizes: tuple[int, int, int, int], step_size: float
) -> None:
    p = draw(*sizes, step_size=step_size)
    _, expected = oracle(p)
    found = closed_form(p, form)
    torch.testing.assert_close(found, expected, atol=EXACT, rtol=0)

    direction = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for name, got, want in zip(
        Parameters.__dataclass_fields__,
        torch.autograd.grad((found * direction).sum(), p.leaves()),
        torch.autograd.grad((expected * direction).sum(), p.leaves()),
        strict=True,
    ):
        torch.testing.assert_close(got, want, atol=EXACT, rtol=EXACT, msg=lambda text, name=name: f"{name}: {text}")


def test_update_equals_autograd() -> None:
    p = draw(3, 7, 4, 5)
    expected, _ = oracle(p)
    problem = cosine_problem(p.keys, p.value_logits.softmax(-1), p.weight, p.scale)
    weights = attention(unit(p.query) @ problem.keys.mT, TEMPERATURE)
    torch.testing.assert_close(adapted_weight(weights, problem, p.weight, p.step_size), expected, atol=EXACT, rtol=0)


@pytest.mark.parametrize("form", ["explicit", "factored"])
def test_dropped_entries_have_no_influence(form: str) -> None:
    p = draw(3, 8, 4, 5)
    keep = torch.rand(3, 8, generator=torch.Generator().manual_seed(2)) > 0.5
    keep[:, 0] = True
    _, expected = oracle(p, keep)
    torch.testing.assert_close(closed_form(p, form, keep), expected, atol=EXACT, rtol=0)


@pytest.mark.parametrize("form", ["explicit", "factored"])
def test_without_a_step_the_logits_are_vanilla(form: str) -> None:
    p = draw(3, 7, 4, 5, step_size=0.0)
    vanilla = p.scale * unit(p.query) @ unit(p.weight).mT
    torch.testing.assert_close(closed_form(p, form), vanilla, atol=EXACT, rtol=0)


def test_attention_on_one_entry_is_one_sgd_step_on_it() -> None:
    p = draw(1, 6, 4, 5)
    values = p.value_logits.softmax(-1)
    problem = cosine_problem(p.keys, values, p.weight, p.scale)
    one_hot = torch.nn.functional.one_hot(torch.tensor([2]), 6).double()
    weight = p.weight.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=p.step_size.item())
    logits = p.scale.detach() * unit(p.keys.detach()[2]) @ unit(weight).mT
    torch.nn.functional.cross_entropy(logits, values.detach()[2]).backward()
    optimizer.step()
    torch.testing.assert_close(adapted_weight(one_hot, problem, p.weight, p.step_size)[0], weight, atol=EXACT, rtol=0)


def test_the_gradient_is_orthogonal_to_the_weights() -> None:
    p = draw(3, 7, 4, 5)
    problem = cosine_problem(p.keys, p.value_logits.softmax(-1), p.weight, p.scale)
    weights = attention(unit(p.query) @ problem.keys.mT, TEMPERATURE)
    along = (classifier_gradient(weights, problem) * p.weight).sum(-1)
    torch.testing.assert_close(along, torch.zeros_like(along), atol=EXACT, rtol=0)


@pytest.mark.parametrize("form", ["explicit", "factored"])
def test_a_row_does_not_depend_on_its_batch_mates(form: str) -> None:
    p = draw(5, 7, 4, 5)
    together = closed_form(p, form)
    for i in range(5):
        alone = Parameters(p.query[i : i + 1], p.keys, p.value_logits, p.weight, p.scale, p.step_size)
        torch.testing.assert_close(closed_form(alone, form)[0], together[i], atol=EXACT, rtol=0)


def test_a_zero_query_has_finite_logits_and_gradients() -> None:
    p = draw(2, 7, 4, 5)
    query = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    logits = closed_form(Parameters(query, p.keys, p.value_logits, p.weight, p.scale, p.step_size), "factored")
    logits.sum().backward()
    assert query.grad is not None
    assert torch.isfinite(logits).all()
    assert torch.isfinite(query.grad).all()


def test_no_tensor_grows_with_batch_entries_and_features() -> None:
    """Neither [B, S, d] nor [B, S, C·d] is ever allocated: the largest intermediate is [B, C, S]."""
    batch, entries, classes, features = 8, 50, 3, 10
    p = draw(batch, entries, classes, features)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                if isinstance(tensor, Tensor):
                    largest = max(largest, tensor.numel())
            return out

    with Watch():
        closed_form(p, "factored").sum().backward()
    assert largest == batch * classes * entries
