"""MAXL: generated labels, the entropy term, and the gradient of second order.

Shapes: images [B, 3, 8, 8], C 3 classes, ψ 4.
"""

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import one_hot

from mntrain.backbones.config import BackboneConfig, build_backbone
from mntrain.models.base import Batch
from mntrain.models.families import FAMILIES
from mntrain.models.maxl.config import MaxlConfig
from mntrain.models.maxl.labels import focal_loss, generated_labels, negative_entropy
from mntrain.models.maxl.model import Maxl
from mntrain.training.optimizer import build_optimizer
from mntrain.training_config import TrainingConfig

CLASSES, HIERARCHY = 3, 4


def build(backbone: str = "convnet4", *, ifilm: bool = False, **settings: Any) -> Maxl:
    torch.manual_seed(0)
    config = MaxlConfig(**{"hierarchy": HIERARCHY, **settings})
    extractor = BackboneConfig(name=backbone, width=0.1, ifilm=ifilm, ifilm_entries=3)
    model = FAMILIES["maxl"].build(config, partial(build_backbone, extractor, (3, 8, 8)), CLASSES)
    assert isinstance(model, Maxl)
    return model


def batch(count: int = 12, dtype: torch.dtype = torch.float32) -> Batch:
    labels = torch.arange(count) % CLASSES
    images = torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return Batch(images + labels[:, None, None, None], labels)


def generator_parameters(model: Maxl) -> list[torch.nn.Parameter]:
    return [p for group in model.parameter_groups() if group.name.startswith("generator") for p in group.parameters]


def test_labels_are_a_distribution_over_the_own_classes_alone() -> None:
    logits = torch.randn(6, CLASSES * HIERARCHY)
    classes = torch.tensor([0, 1, 2, 0, 1, 2])
    labels = generated_labels(logits, classes, HIERARCHY).view(6, CLASSES, HIERARCHY)
    torch.testing.assert_close(labels.sum(dim=(1, 2)), torch.ones(6))
    for row, own in zip(labels, classes.tolist(), strict=True):
        assert (row[own] > 0).all()
        assert row.sum() == pytest.approx(row[own].sum().item())


def test_focal_loss_without_focus_is_cross_entropy() -> None:
    logits, classes = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 0])
    targets = torch.nn.functional.one_hot(classes, 4).float()
    torch.testing.assert_close(focal_loss(logits, targets, 0.0), torch.nn.functional.cross_entropy(logits, classes))
    sure = torch.full((1, 4), -4.0).index_fill(1, torch.tensor([0]), 4.0)
    one = targets[:1]
    assert focal_loss(sure, one, 2.0) < 1e-3 * focal_loss(sure, one, 0.0), "what is learned already counts little"


def test_entropy_is_lowest_where_all_labels_are_used_alike() -> None:
    spread = torch.full((6, 4), 0.25)
    assert negative_entropy(spread).item() == pytest.approx(-math.log(4))
    collapsed = torch.eye(4)[:1].expand(6, 4)
    assert negative_entropy(collapsed).item() == pytest.approx(0)


def test_second_order_gradient_equals_finite_differences() -> None:
    model = build(virtual_step=0.5).double()
    data = batch(dtype=torch.float64)
    parameters = generator_parameters(model)
    loss, _ = model.generator_loss(data)
    gradients = torch.autograd.grad(loss, parameters)
    direction = [torch.randn_like(p) for p in parameters]
    expected = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))

    def moved(amount: float) -> float:
        shifted = copy.deepcopy(model)
        with torch.no_grad():
            for parameter, change in zip(generator_parameters(shifted), direction, strict=True):
                parameter.add_(amount * change)
        return float(shifted.generator_loss(data)[0].detach())

    found = (moved(1e-5) - moved(-1e-5)) / 2e-5
    assert found == pytest.approx(expected, rel=1e-5)
    assert abs(expected) > 1e-6


def by_double_backward(model: Maxl, data: Batch) -> Tensor:
    """The generator's loss written down as it is defined: the virtual step is part of the graph."""
    config, classes = model.config, one_hot(data.targets, CLASSES).double()
    labels = model.labels(data)
    parameters = dict(model.learner.named_parameters())
    draws = torch.get_rng_state()

    def answers(values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        torch.set_rng_state(draws)
        buffers = {name: value.clone() for name, value in model.learner.named_buffers()}
        logits, auxiliary = functional_call(model.learner, ({**values}, buffers), (data.inputs,))
        return logits, auxiliary

    logits, auxiliary = answers(parameters)
    inner = focal_loss(logits, classes, config.focus)
    inner = inner + config.auxiliary * focal_loss(auxiliary, labels, config.focus)
    gradients = torch.autograd.grad(inner, list(parameters.values()), create_graph=True)
    moved = {
        name: parameters[name] - config.virtual_step * gradient
        for name, gradient in zip(parameters, gradients, strict=True)
    }
    return focal_loss(answers(moved)[0], classes, config.focus) + config.entropy * negative_entropy(labels)


@pytest.mark.parametrize(
    ("backbone", "ifilm", "settings"),
    [
        ("convnet4", True, {"head": "dot", "focus": 0.0, "auxiliary": 0.7}),
        ("resnet29", True, {"entropy": 0.0}),
        ("densenet40bc", False, {}),
    ],
)
def test_the_gradient_is_that_of_the_virtual_step_differentiated(
    backbone: str, ifilm: bool, settings: dict[str, Any]
) -> None:
    """Also where the backbone drops features at random: before and after the step they are the same."""
    model, data = build(backbone, ifilm=ifilm, virtual_step=0.5, **settings).double(), batch(6, torch.float64)
    losses, gradients = [], []
    for loss_of in (lambda: by_double_backward(model, data), lambda: model.generator_loss(data)[0]):
        torch.manual_seed(7)
        losses.append(loss_of())
        gradients.append(torch.autograd.grad(losses[-1], generator_parameters(model)))
    torch.testing.assert_close(losses[1], losses[0], atol=1e-12, rtol=1e-12)
    assert max(float(value.abs().max()) for value in gradients[0]) > 1e-6
    for found, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-7)


def test_the_virtual_step_matters_to_the_generator() -> None:
    """Without the entropy term the only way from loss to generator is the gradient of second order."""
    model = build(entropy=0.0)
    gradients = torch.autograd.grad(model.generator_loss(batch())[0], generator_parameters(model))
    assert max(float(g.abs().max()) for g in gradients) > 0


def test_the_entropy_term_acts_on_the_generator() -> None:
    def gradient(entropy: float) -> Tensor:
        model = build(entropy=entropy)
        gradients = torch.autograd.grad(model.generator_loss(batch())[0], generator_parameters(model))
        return torch.cat([g.flatten() for g in gradients])

    difference = gradient(1.0) - gradient(0.0)
    assert difference.norm() > 1e-4


def test_the_entropy_term_undoes_a_collapse() -> None:
    """A generator that gives every image the same auxiliary class learns to use the others."""
    spread = []
    for entropy in (0.0, 1.0):
        model = build(entropy=entropy, head="dot", generator_rate=1.0)
        head = model.generator.heads[0]
        with torch.no_grad():
            head.weight[:, -1].view(CLASSES, HIERARCHY)[:, 0].fill_(3.0)
        optimizer = build_optimizer(model.parameter_groups(), TrainingConfig(learning_rate=0.01, weight_decay=0.0))
        for _ in range(40):
            optimizer.zero_grad()
            model.generator_loss(batch())[0].backward(inputs=generator_parameters(model))
            optimizer.step()
        spread.append(-negative_entropy(model.labels(batch()).detach()).item())
    assert spread[1] > spread[0] + 0.3
    assert spread[1] > 0.9 * math.log(CLASSES * HIERARCHY)


def test_a_pass_touches_its_own_network_alone() -> None:
    model = build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    loss, _ = model.generator_loss(batch())
    loss.backward(inputs=generator_parameters(model))
    assert all(p.grad is None for p in model.learner.parameters())
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed, "the generator's running statistics move"
    assert all(name.startswith("generator.") for name in changed), "a virtual step leaves no trace in the learner"


def test_only_the_learner_answers() -> None:
    model = build().eval()
    images = batch().inputs
    before = model(images)
    with torch.no_grad():
        for parameter in model.generator.parameters():
            parameter.zero_()
    torch.testing.assert_close(model(images).logits, before.logits, atol=0, rtol=0)
    assert before.logits.shape == (12, CLASSES)
    assert before.unadapted_logits is None
