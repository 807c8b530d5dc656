"""Regressors as a whole: what the loop and the exporter rely on.

Shapes: inputs [B, 6]; values [B] of one target, [B, 3] of several.
"""

from typing import Any

import pytest
import torch

from mntrain.errors import ConfigError
from mntrain.layers.mlp import Mlp
from mntrain.models.base import Batch, Regressor, TargetRanges
from mntrain.models.families import FAMILIES
from mntrain.models.neighbors import HasNeighbors, NeighborClassifier
from mntrain.training.optimizer import build_optimizer
from mntrain.training_config import TrainingConfig

FEATURES, UNITS = 6, 32
SETTINGS: dict[str, dict[str, Any]] = {"meta_neighborhoods": {"entries": 40, "step_size": 0.2, "temperature": 0.1}}
THREE = ((-1.5, 2.5), (0.0, 1.0), (3.0, 4.0))
REGRESSORS = sorted(name for name, family in FAMILIES.items() if family.build_regressor is not None)


def build(family: str, ranges: TargetRanges = ((-1.5, 2.5),), **settings: Any) -> Regressor:
    torch.manual_seed(0)
    entry = FAMILIES[family]
    assert entry.build_regressor is not None
    config = entry.config(**{**SETTINGS.get(family, {}), **settings})
    return entry.build_regressor(config, Mlp(FEATURES, 2, UNITS, len(ranges)), ranges)


def batch(count: int = 64, targets: int = 1) -> Batch:
    inputs = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(1))
    product, part, square = inputs[:, 0] * inputs[:, 1], 0.5 * inputs[:, 2], inputs[:, 3].square() - 1
    return Batch(inputs, product + part if targets == 1 else torch.stack([product, part, square], dim=-1))


@pytest.fixture(params=REGRESSORS)
def model(request: pytest.FixtureRequest) -> Regressor:
    return build(request.param)


@pytest.fixture(params=REGRESSORS)
def of_three(request: pytest.FixtureRequest) -> Regressor:
    """A model of three targets."""
    return build(request.param, THREE)


def test_several_targets_are_estimated_at_once(of_three: Regressor) -> None:
    of_three.eval()
    x = batch(6).inputs
    with torch.inference_mode():
        together = of_three(x)
        alone = torch.cat([of_three(x[i : i + 1]).values for i in range(6)])
    torch.testing.assert_close(alone, together.values)
    assert together.values.shape == (6, 3)
    if together.unadapted_values is not None:
        assert together.unadapted_values.shape == (6, 3)
        assert (together.values - together.unadapted_values).abs().amax(dim=0).min() > 1e-3, "all of them adapted"


def test_the_loss_of_several_targets_is_the_mean_of_theirs(of_three: Regressor) -> None:
    examples = batch(targets=3)
    loss, estimate = of_three.loss(examples)
    errors = (estimate.values.detach() - examples.targets).square()
    assert loss.item() == pytest.approx(sum(errors[:, i].mean().item() for i in range(3)) / 3)


def test_training_lowers_the_loss_of_every_target(of_three: Regressor) -> None:
    optimizer = build_optimizer(of_three.parameter_groups(), TrainingConfig(learning_rate=5e-3))
    examples, errors = batch(targets=3), []
    for _ in range(150):
        optimizer.zero_grad()
        loss, estimate = of_three.loss(examples)
        loss.backward()
        optimizer.step()
        errors.append((estimate.values.detach() - examples.targets).square().mean(dim=0))
    assert (torch.stack(errors[-5:]).sum(dim=0) < 0.5 * torch.stack(errors[:5]).sum(dim=0)).all()


def test_row_i_alone_equals_row_i_in_any_batch(model: Regressor) -> None:
    model.eval()
    x = batch(6).inputs
    with torch.inference_mode():
        together = model(x).values
        torch.testing.assert_close(torch.cat([model(x[i : i + 1]).values for i in range(6)]), together)
        torch.testing.assert_close(model(x.flip(0)).values.flip(0), together)
    assert together.shape == (6,)


def test_training_lowers_the_loss_and_moves_every_parameter(model: Regressor) -> None:
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig(learning_rate=5e-3))
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss, _ = model.loss(batch())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])
    assert [name for name, value in model.named_parameters() if torch.equal(value, before[name])] == []


def test_every_parameter_is_in_one_group(model: Regressor) -> None:
    grouped = [id(parameter) for group in model.parameter_groups() for parameter in group.parameters]
    assert sorted(grouped) == sorted(id(parameter) for parameter in model.parameters())


def test_values_start_between_the_targets_and_keys_around_nothing() -> None:
    state = build("meta_neighborhoods", entries=4000, key_std=0.1).state_dict()
    assert -1.5 <= state["values"].min() < -1.4
    assert 2.4 < state["values"].max() <= 2.5
    assert state["keys"].std().item() == pytest.approx(0.1, rel=0.05)


def test_the_values_of_every_target_start_between_its_own() -> None:
    values = build("meta_neighborhoods", THREE, entries=4000).state_dict()["values"]
    assert values.shape == (4000, 3)
    for column, (low, high) in zip(values.T, THREE, strict=True):
        assert low <= column.min() < low + 0.1
        assert high - 0.1 < column.max() <= high


def test_one_target_draws_what_it_always_drew() -> None:
    """Recorded runs start from these weights."""
    found = build("meta_neighborhoods").state_dict()
    torch.manual_seed(0)
    network = Mlp(FEATURES, 2, UNITS, 1)
    keys = 0.05 * torch.randn(40, FEATURES)
    assert torch.equal(found["network.layers.0.weight"], network.layers[0].weight)
    assert torch.equal(found["keys"], keys)
    assert torch.equal(found["values"], torch.empty(40).uniform_(-1.5, 2.5))


@pytest.mark.parametrize("mode", ["per_sample", "per_batch"])
def test_entries_drop_out_while_training_only(mode: str) -> None:
    model = build("meta_neighborhoods", dropout=0.5, dropout_mode=mode)
    x = batch(4).inputs
    with torch.no_grad():
        assert not torch.equal(model(x).values, model(x).values)
        model.eval()
        assert torch.equal(model(x).values, model(x).values)


@pytest.mark.parametrize(
    ("field", "value"), [("steps", 3), ("step_size_form", "per_parameter"), ("confidence", 0.9), ("entries_by", "even")]
)
def test_refuses_what_only_a_classifier_can_have(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"meta_neighborhoods\.{field} is .*regression (takes|has no classes)"):
        build("meta_neighborhoods", **{field: value})


def test_no_weights_of_their_own_are_built_for_the_queries(largest: Any) -> None:
    model = build("meta_neighborhoods")
    with largest as seen:
        loss, _ = model.loss(batch(64))
        loss.backward()
    assert seen.elements <= 64 * 40, "nothing is larger than the attention [B, S]"
    assert seen.elements < 64 * UNITS * UNITS


def test_a_regressor_that_adapts_has_neighbors_without_classes(model: Regressor) -> None:
    model.eval()
    inputs = batch().inputs
    with torch.inference_mode():
        adapts = model(inputs).unadapted_values is not None
        assert isinstance(model, HasNeighbors) == adapts
        assert not isinstance(model, NeighborClassifier)
        if isinstance(model, HasNeighbors):
            attention = model.attention_over_all(model.queries(inputs))
            assert model.entry_values().shape == (len(model.entry_keys()),)
            assert build("meta_neighborhoods", THREE).entry_values().shape == (40, 3)  # type: ignore[attr-defined]
            assert (
                attention.argmax(dim=-1).tolist()
                == model.comparable_similarity(inputs, slice(None)).argmax(-1).tolist()
            )


@pytest.mark.parametrize("ranges", [THREE[:1], THREE])
def test_entries_left_out_of_an_estimate_are_as_if_they_had_never_been(ranges: TargetRanges) -> None:
    model: Any = build("meta_neighborhoods", ranges).double().eval()
    x, keys, values = batch(6).inputs.double(), model.keys.detach(), model.values.detach()
    keep = torch.rand(6, len(keys), generator=torch.manual_seed(3)) < 0.5
    with torch.inference_mode():
        found = model.answers_from(x, keep)
        for row in range(6):
            smaller: Any = build("meta_neighborhoods", ranges, entries=int(keep[row].sum())).double().eval()
            smaller.network = model.network
            smaller.keys.data, smaller.values.data = keys[keep[row]], values[keep[row]]
            torch.testing.assert_close(found[row : row + 1], smaller(x[row : row + 1]).values)
