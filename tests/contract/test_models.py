"""What every model family on every backbone must do: the training loop and the exporter rely on nothing else.

A new family or backbone is covered by its entry in ``FAMILIES`` or ``BACKBONES`` alone.
"""

import pytest
import torch
from torch import nn

from mntrain.backbones.config import BACKBONES, BackboneConfig, build_backbone
from mntrain.models.base import Batch, Model
from mntrain.models.families import FAMILIES
from mntrain.training.config import TrainingConfig
from mntrain.training.optimizer import build_optimizer

CLASSES, CHANNELS, SIZE = 4, 3, 16
SMALL = {"meta_neighborhoods": {"entries": 30, "step_size": 0.5}}


def build(family: str, backbone: str) -> Model:
    torch.manual_seed(0)
    features = build_backbone(BackboneConfig(name=backbone, width=0.25), CHANNELS)
    entry = FAMILIES[family]
    return entry.build(entry.config(**SMALL.get(family, {})), features, features.features, CLASSES)


@pytest.fixture(params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=sorted(BACKBONES))
def model(request: pytest.FixtureRequest, family: str) -> Model:
    return build(family, str(request.param))


def images(count: int) -> torch.Tensor:
    return torch.randn(count, CHANNELS, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def test_row_i_alone_equals_row_i_in_any_batch(model: Model) -> None:
    model.eval()
    x = images(6)
    with torch.inference_mode():
        together = model(x).logits
        alone = torch.cat([model(x[i : i + 1]).logits for i in range(6)])
        reversed_order = model(x.flip(0)).logits.flip(0)
    assert together.shape == (6, CLASSES)
    torch.testing.assert_close(alone, together, atol=1e-4, rtol=0)
    torch.testing.assert_close(reversed_order, together, atol=1e-4, rtol=0)


def test_every_parameter_is_in_one_group(model: Model) -> None:
    grouped = [parameter for group in model.parameter_groups() for parameter in group.parameters]
    assert len(grouped) == len({id(parameter) for parameter in grouped})
    assert {id(parameter) for parameter in grouped} == {id(parameter) for parameter in model.parameters()}


def test_every_parameter_learns(model: Model) -> None:
    batch = Batch(images(8), torch.arange(8) % CLASSES)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())
    for _ in range(2):
        optimizer.zero_grad()
        loss, _ = model.loss(batch)
        loss.backward()
        optimizer.step()
    still = [name for name, value in model.named_parameters() if torch.equal(value, before[name])]
    assert still == []


def test_only_the_backbone_decays(model: Model) -> None:
    decayed = {
        group["name"]
        for group in build_optimizer(model.parameter_groups(), TrainingConfig()).param_groups
        if group["weight_decay"] > 0
    }
    assert decayed == {"backbone"}


def test_training_lowers_the_loss(model: Model) -> None:
    batch = Batch(images(16), torch.arange(16) % CLASSES)
    optimizer = build_optimizer(model.parameter_groups(), TrainingConfig())
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss, _ = model.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_weights_survive_saving_and_loading(model: Model, family: str) -> None:
    other = build(family, "convnet4")
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    other.load_state_dict(model.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(other.eval()(images(3)).logits, model.eval()(images(3)).logits, atol=0, rtol=0)


def test_double_precision_is_kept(model: Model) -> None:
    model.double().eval()
    with torch.inference_mode():
        assert model(images(2).double()).logits.dtype == torch.float64


def test_the_sign_of_a_learned_step_size_does_not_matter() -> None:
    model = build("meta_neighborhoods", "convnet4").eval()
    with torch.inference_mode():
        before = model(images(3)).logits
        model.raw_step_size.neg_()  # type: ignore[operator]
        torch.testing.assert_close(model(images(3)).logits, before, atol=0, rtol=0)
