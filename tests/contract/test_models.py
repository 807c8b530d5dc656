"""Contract of every model family on every backbone: the training loop and the exporter rely on nothing else.

A new family or backbone is covered by its entry in ``FAMILIES`` or ``BACKBONES`` alone.

Shapes: images [B, 3, 16, 16], logits [B, 4].
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from mntrain.layers.attention import unit
from mntrain.layers.heads import CosineHead
from mntrain.models.base import Batch, Model, TrainingPhase
from mntrain.models.neighbors import HasNeighbors, NeighborClassifier
from mntrain.training.optimizer import build_optimizer
from mntrain.training_config import TrainingConfig

CLASSES, CHANNELS, SIZE = 4, 3, 16
STEP = 1e-10
SHALLOW = ("convnet4", "mlp", "identity")


def images(count: int) -> torch.Tensor:
    return torch.randn(count, CHANNELS, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def test_row_i_alone_equals_row_i_in_any_batch(model: Model) -> None:
    # In double precision: deep networks without training make much of the last bits of single precision.
    model.double().eval()
    x = images(6).double()
    with torch.inference_mode():
        together = model(x).logits
        alone = torch.cat([model(x[i : i + 1]).logits for i in range(6)])
        reversed_order = model(x.flip(0)).logits.flip(0)
    assert together.shape == (6, CLASSES)
    torch.testing.assert_close(alone, together, atol=1e-9, rtol=0)
    torch.testing.assert_close(reversed_order, together, atol=1e-9, rtol=0)


def test_every_parameter_is_in_one_group(model: Model) -> None:
    grouped = [parameter for group in model.parameter_groups() for parameter in group.parameters]
    assert len(grouped) == len({id(parameter) for parameter in grouped})
    assert {id(parameter) for parameter in grouped} == {id(parameter) for parameter in model.parameters()}


def test_every_parameter_learns(model: Model) -> None:
    batch = Batch(images(8), torch.arange(8) % CLASSES)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())
    for _ in range(2):
        for phase in model.training_phases():
            optimizer.zero_grad()
            loss, _ = phase.objective(batch)
            groups = [group for group in model.parameter_groups() if group.name in phase.groups]
            loss.backward(inputs=[parameter for group in groups for parameter in group.parameters])
            optimizer.step()
    still = [name for name, value in model.named_parameters() if torch.equal(value, before[name])]
    assert still == []


def loss_of(phase: TrainingPhase, batch: Batch) -> torch.Tensor:
    torch.manual_seed(5)
    return phase.objective(batch)[0]


def test_gradients_are_those_of_the_loss(model: Model) -> None:
    """Along a random direction, against central differences in float64; dropout draws the same in every call."""
    model.double()
    batch = Batch(images(6).double(), torch.arange(6) % CLASSES)
    generator = torch.Generator().manual_seed(2)
    estimated = any(group.estimated for group in model.parameter_groups())
    for phase in model.training_phases():
        if estimated and not phase.trains_prediction:
            continue  # the gradient of a virtual step goes through what the straight-through rule moves
        groups = [group for group in model.parameter_groups() if group.name in phase.groups and not group.estimated]
        parameters = [parameter for group in groups for parameter in group.parameters]
        direction = [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in parameters]
        gradients = torch.autograd.grad(loss_of(phase, batch), parameters)
        found = sum(float((gradient * step).sum()) for gradient, step in zip(gradients, direction, strict=True))
        beside = []
        for distance in (STEP, -2 * STEP):
            with torch.no_grad():
                for parameter, step in zip(parameters, direction, strict=True):
                    parameter += distance * step
            beside.append(loss_of(phase, batch).item())
        assert found == pytest.approx((beside[0] - beside[1]) / (2 * STEP), rel=1e-4, abs=1e-6)


def test_training_goes_on_from_saved_states(model: Model, variant: Any, build_variant: Callable[[Any], Model]) -> None:
    batch = Batch(images(8), torch.arange(8) % CLASSES)

    def step(trained: Model, optimizer: torch.optim.Optimizer, seed: int) -> None:
        torch.manual_seed(seed)
        for phase in trained.training_phases():
            optimizer.zero_grad()
            phase.objective(batch)[0].backward()
            optimizer.step()

    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())
    step(model, optimizer, 1)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    other = build_variant(variant)
    resumed = build_optimizer(other.parameter_groups(), TrainingConfig())
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    step(model, optimizer, 2)
    step(other, resumed, 2)
    resumed_weights = other.state_dict()
    assert all(torch.equal(value, resumed_weights[name]) for name, value in model.state_dict().items())


def test_one_phase_trains_the_prediction_and_every_group_is_in_a_phase(model: Model) -> None:
    phases = model.training_phases()
    assert [phase.trains_prediction for phase in phases].count(True) == 1
    groups = {group.name for group in model.parameter_groups()}
    assert {name for phase in phases for name in phase.groups} == groups
    batch = Batch(images(4), torch.arange(4))
    for phase in phases:
        torch.manual_seed(3)
        expected, _ = phase.objective(batch)
        torch.manual_seed(3)
        loss, _ = model.evaluate_objective(phase.objective, batch)
        penalty = model.penalty()
        torch.testing.assert_close(loss, expected if penalty is None else expected + penalty, atol=0, rtol=0)


def test_the_plain_network_answers_as_the_model_does_before_adaptation(model: Model) -> None:
    model.eval()
    plain = model.plain().eval()
    with torch.inference_mode():
        prediction, answer = model(images(3)), plain(images(3))
    expected = prediction.logits if prediction.unadapted_logits is None else prediction.unadapted_logits
    torch.testing.assert_close(answer.logits, expected)
    assert answer.unadapted_logits is None
    assert {id(parameter) for parameter in plain.parameters()} <= {id(parameter) for parameter in model.parameters()}


def test_only_backbones_decay(model: Model) -> None:
    decayed = {
        group["name"]
        for group in build_optimizer(model.parameter_groups(), TrainingConfig()).param_groups
        if group["weight_decay"] > 0
    }
    assert "backbone" in decayed
    assert decayed <= {"backbone", "generator"}


def test_training_lowers_the_loss(model: Model, variant: Any) -> None:
    if variant.backbone not in SHALLOW and variant.family != "vanilla":
        pytest.skip(
            "thirty steps of a deep backbone are taken under the vanilla head, and of this head on shallow ones"
        )
    labels = torch.arange(16) % CLASSES
    batch = Batch(images(16) + labels[:, None, None, None], labels)
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig(learning_rate=3e-3))
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss, _ = model.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_weights_survive_saving_and_loading(model: Model, variant: Any, build_variant: Callable[[Any], Model]) -> None:
    other = build_variant(variant)
    for value in other.state_dict(keep_vars=True).values():
        nn.init.zeros_(value)
    # What a state dict leaves out would stay as it was built, so one model is built from other numbers.
    for name, buffer in other.named_buffers():
        assert name in model.state_dict(), name
        assert not buffer.any()
    other.load_state_dict(model.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(other.eval()(images(3)).logits, model.eval()(images(3)).logits, atol=0, rtol=0)


def test_double_precision_is_kept(model: Model) -> None:
    model.double().eval()
    with torch.inference_mode():
        assert model(images(2).double()).logits.dtype == torch.float64


def test_the_sign_of_a_learned_step_size_does_not_matter(model: Model) -> None:
    if not hasattr(model, "raw_step_size"):
        return
    model.eval()
    with torch.inference_mode():
        before = model(images(3)).logits
        model.raw_step_size.neg_()
        torch.testing.assert_close(model(images(3)).logits, before, atol=0, rtol=0)


def test_the_prediction_before_adaptation_is_told_apart(model: Model) -> None:
    model.eval()
    with torch.inference_mode():
        prediction = model(images(5))
    if prediction.unadapted_logits is not None:
        assert not torch.equal(prediction.unadapted_logits, prediction.logits)


def test_a_model_adapts_if_and_only_if_it_has_neighbors(model: Model) -> None:
    model.eval()
    with torch.inference_mode():
        adapts = model(images(2)).unadapted_logits is not None
    assert isinstance(model, HasNeighbors) == isinstance(model, NeighborClassifier) == adapts


def test_neighbors_explain_the_answer_of_the_model(model: Model) -> None:
    if not isinstance(model, NeighborClassifier):
        return
    model.eval()
    values, labels = model.entry_values(), model.entry_labels()
    entries = len(model.entry_keys())
    assert values.shape == (entries, CLASSES)
    assert labels.tolist() == values.argmax(dim=-1).tolist()
    with torch.inference_mode():
        queries = model.queries(images(5))
        expected = model(images(5)).logits
        torch.testing.assert_close(model.classify(queries).logits, expected, atol=0, rtol=0)
        everything = model.logits_among(queries, torch.arange(entries), model.temperature)
        attention = model.attention_over_all(queries)
        similarity = model.comparable_similarity(queries, slice(None))
        some = model.comparable_similarity(queries, torch.tensor([3, 1]))
    torch.testing.assert_close(everything, expected)
    assert attention.shape == similarity.shape == (5, entries)
    torch.testing.assert_close(attention.sum(dim=-1), torch.ones(5))
    assert attention.argmax(dim=-1).tolist() == similarity.argmax(dim=-1).tolist()
    torch.testing.assert_close(some, similarity[:, [3, 1]])


def test_entries_left_out_of_an_answer_are_as_if_they_had_never_been(model: Model) -> None:
    if not isinstance(model, NeighborClassifier):
        return
    model.double().eval()
    entries = len(model.entry_keys())
    keep = torch.rand(5, entries, generator=torch.manual_seed(3)) < 0.5
    with torch.inference_mode():
        queries = model.queries(images(5).double())
        found = model.answers_from(queries, keep)
        torch.testing.assert_close(model.answers_from(queries, torch.ones_like(keep)), model.classify(queries).logits)
        for row, query in enumerate(queries.split(1)):
            alone = model.logits_among(query, keep[row].nonzero().squeeze(1), model.temperature)
            torch.testing.assert_close(found[row : row + 1], alone)


def test_a_cosine_head_shows_the_prototypes_that_it_answers_with(model: Model) -> None:
    if not isinstance(model, NeighborClassifier):
        return
    model.eval().requires_grad_(False)
    queries = model.queries(images(5))
    prototypes, prediction = model.prototypes(queries), model.classify(queries)
    head: Any = getattr(model, "head", None)
    assert (prototypes is not None) == isinstance(head, CosineHead)
    if prototypes is None:
        return
    unadapted = head.scale * unit(queries) @ prototypes.unadapted.mT
    adapted = head.scale * (prototypes.adapted @ unit(queries).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(unadapted, prediction.unadapted_logits)
    torch.testing.assert_close(adapted, prediction.logits, atol=1e-4, rtol=1e-4)
