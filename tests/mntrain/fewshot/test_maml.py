"""Inner steps, and the gradient through them against differences in double precision."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mntrain.artifact import ImageArtifact
from mntrain.errors import ConfigError
from mntrain.fewshot.maml import InnerSettings, MetaLearner
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.network import FeatureNetwork

_DIFFERENCE = 1e-5


class Smooth(nn.Module):
    """A backbone with derivatives of any order."""

    features = 3

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.linear(inputs))


def smooth_learner(settings: InnerSettings) -> MetaLearner:
    torch.manual_seed(0)
    network = FeatureNetwork(nn.Identity(), Smooth().double())  # type: ignore[arg-type]
    learner = MetaLearner(network, 2, settings)
    learner._head.double()
    nn.init.normal_(learner._head.weight)
    return learner


@pytest.fixture
def episode() -> tuple[SupportSet, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(10, 4, generator=generator, dtype=torch.float64)
    return SupportSet(images[:4], torch.tensor([0, 1, 1, 0]), 2), images[4:], torch.tensor([0, 1, 0, 1, 1, 0])


def slope_by_differences(loss: Callable[[], Tensor], parameter: nn.Parameter) -> Tensor:
    slope = torch.zeros_like(parameter)
    for index in range(parameter.numel()):
        with torch.no_grad():
            parameter.view(-1)[index] += _DIFFERENCE
        above = loss().item()
        with torch.no_grad():
            parameter.view(-1)[index] -= 2 * _DIFFERENCE
        below = loss().item()
        with torch.no_grad():
            parameter.view(-1)[index] += _DIFFERENCE
        slope.view(-1)[index] = (above - below) / (2 * _DIFFERENCE)
    return slope


@pytest.mark.parametrize("classifier_steps", [0, 3])
def test_the_gradient_goes_through_the_steps(episode: tuple[SupportSet, Tensor, Tensor], classifier_steps: int) -> None:
    """Differences of the loss after the steps, which know of no gradient of a gradient."""
    learner = smooth_learner(InnerSettings(steps=2, step_size=0.3, classifier_steps=classifier_steps))
    learner.episode_loss(*episode).backward()  # type: ignore[no-untyped-call]
    support, queries, labels = episode

    def loss() -> Tensor:
        return cross_entropy(learner.classify(support, queries), labels)

    for parameter in learner.trained_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, slope_by_differences(loss, parameter), rtol=1e-6, atol=1e-8)


def test_first_order_is_another_gradient(episode: tuple[SupportSet, Tensor, Tensor]) -> None:
    settings = InnerSettings(steps=2, step_size=0.3)
    slopes = []
    for second_order in (True, False):
        learner = smooth_learner(replace(settings, second_order=second_order))
        learner.episode_loss(*episode).backward()  # type: ignore[no-untyped-call]
        slopes.append(learner.start["head.weight"].grad)
    first, second = slopes
    assert first is not None
    assert second is not None
    assert (first - second).abs().max() > 1e-3


def test_one_step_is_written_out(episode: tuple[SupportSet, Tensor, Tensor]) -> None:
    learner = smooth_learner(InnerSettings(steps=1, step_size=0.1))
    support, queries, _ = episode
    linear, weight = learner._network.backbone.linear, learner.start["head.weight"]
    assert isinstance(linear, nn.Linear)
    hidden = torch.tanh(linear(support.images))
    errors = (hidden @ weight[:, :-1].T + weight[:, -1]).softmax(dim=1) - torch.eye(2)[support.labels]
    errors = errors / len(support.images)
    inner = errors @ weight[:, :-1] * (1 - hidden.square())
    head = weight - 0.1 * torch.cat([errors.T @ hidden, errors.sum(dim=0)[:, None]], dim=1)
    kernel, bias = linear.weight - 0.1 * inner.T @ support.images, linear.bias - 0.1 * inner.sum(dim=0)
    expected = torch.tanh(queries @ kernel.T + bias) @ head[:, :-1].T + head[:, -1]
    torch.testing.assert_close(learner.classify(support, queries), expected.detach())


def test_meta_static_nsn_changes_similarities_and_classifier_alone(plain: ImageArtifact) -> None:
    network = FeatureNetwork.with_static_similarity(plain)
    settings = InnerSettings(step_size=0.2, classifier_steps=20)
    learner = MetaLearner(network, 2, settings, similarities_only=True)
    names = {f"backbone.{name}" for name in network.similarities()} | {"head.weight"}
    assert set(learner.start) == names
    assert len(names) == 4
    images = torch.from_numpy(plain.samples.images[:8])
    support = SupportSet(images[:4], torch.tensor([0, 1, 1, 0]), 2)
    adapted = learner.adapt(support, differentiable=False)
    assert all(not torch.equal(adapted[name], learner.start[name]) for name in names)
    learner.episode_loss(support, images[4:], torch.tensor([0, 0, 1, 1])).backward()  # type: ignore[no-untyped-call]
    learning = {name for name, value in network.backbone.named_parameters() if value.grad is not None}
    assert learning == set(network.similarities())


def test_maml_trains_every_parameter(plain: ImageArtifact) -> None:
    network = FeatureNetwork.of(plain).copy()
    learner = MetaLearner(network, 2, InnerSettings())
    images = torch.from_numpy(plain.samples.images[:8])
    support = SupportSet(images[:4], torch.tensor([0, 1, 1, 0]), 2)
    learner.episode_loss(support, images[4:], torch.tensor([0, 0, 1, 1])).backward()  # type: ignore[no-untyped-call]
    assert all(value.grad is not None for value in learner.trained_parameters())
    assert len(list(learner.trained_parameters())) == len(list(network.backbone.parameters())) + 1


@pytest.mark.parametrize(("field", "value"), [("steps", -1), ("classifier_steps", 1001), ("step_size", 0.0)])
def test_steps_that_cannot_be_are_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"maml.{field} is {value}"):
        replace(InnerSettings(), **{field: value})  # type: ignore[arg-type]
