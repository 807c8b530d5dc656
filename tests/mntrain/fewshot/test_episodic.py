"""Training on episodes: it lowers the loss, and stops at one that is no number."""

from dataclasses import replace

import pytest
import torch

from mntrain.artifact import ImageArtifact
from mntrain.errors import ConfigError, TrainingError
from mntrain.fewshot.episodes import Episodes, EpisodeShape
from mntrain.fewshot.episodic import EpisodicSettings, support_of, train_on_episodes
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import MetricMethod, PrototypeMethod, prototype_logits
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.relation import RelationMethod


@pytest.fixture
def episodes(plain: ImageArtifact) -> Episodes:
    """Episodes of the held-out samples of the artifact."""
    shape = EpisodeShape(ways=2, shots=1, queries=2)
    return Episodes(plain.samples.labels, plain.config.labels, shape, 0)


def test_training_lowers_the_loss(plain: ImageArtifact, episodes: Episodes) -> None:
    images = torch.from_numpy(plain.samples.images)
    method = RelationMethod(FeatureNetwork.of(plain).copy(), images[:1])
    losses: list[float] = []
    counts: list[int] = []

    def keep(count: int, loss: float) -> None:
        counts.append(count)
        losses.append(loss)

    train_on_episodes(method, images, episodes, EpisodicSettings(episodes=41, batch=2, learning_rate=0.01), keep)
    assert counts == [*range(2, 41, 2), 41]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_a_step_takes_the_mean_gradient_of_its_episodes(plain: ImageArtifact, episodes: Episodes) -> None:
    images = torch.from_numpy(plain.samples.images)
    settings = EpisodicSettings(episodes=2, batch=2, gradient_clip=1e9)

    def gradients(count: int, batch: int) -> list[torch.Tensor]:
        method = MetricMethod(FeatureNetwork.of(plain).copy(), prototype_logits)
        train_on_episodes(method, images, episodes, replace(settings, episodes=count, batch=batch, learning_rate=1e-12))
        return [parameter.grad.clone() for parameter in method.trained_parameters() if parameter.grad is not None]

    together = gradients(2, 2)
    # With steps of no length the last of two steps has the gradient of the second episode alone.
    for both, first, second in zip(together, gradients(1, 1), gradients(2, 1), strict=True):
        torch.testing.assert_close(both, (first + second) / 2, atol=1e-6, rtol=1e-4)


def test_a_gradient_is_no_longer_than_it_may_be(plain: ImageArtifact, episodes: Episodes) -> None:
    images = torch.from_numpy(plain.samples.images)
    method = MetricMethod(FeatureNetwork.of(plain).copy(), prototype_logits)
    train_on_episodes(method, images, episodes, EpisodicSettings(episodes=1, gradient_clip=1e-3))
    gradients = [parameter.grad for parameter in method.trained_parameters() if parameter.grad is not None]
    assert torch.cat([gradient.flatten() for gradient in gradients]).norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_the_loss_does_not_depend_on_the_scale_of_features(
    plain: ImageArtifact, episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.from_numpy(plain.samples.images)
    episode = episodes.draw(0)
    queries, labels = images[torch.from_numpy(episode.queries)], torch.from_numpy(episode.query_labels)

    def loss(scale: float) -> torch.Tensor:
        network = FeatureNetwork.of(plain).copy()
        embed = network.embed
        monkeypatch.setattr(network, "embed", lambda pixels: scale * embed(pixels))
        return PrototypeMethod(network).episode_loss(support_of(episode, images), queries, labels)

    torch.testing.assert_close(loss(100.0), loss(1.0), rtol=1e-3, atol=1e-5)


def test_no_training_leaves_the_network_as_it_is(plain: ImageArtifact, episodes: Episodes) -> None:
    images = torch.from_numpy(plain.samples.images)
    network = FeatureNetwork.of(plain).copy()
    train_on_episodes(MetricMethod(network, prototype_logits), images, episodes, EpisodicSettings(episodes=0))
    assert torch.equal(network.stored_features(images), FeatureNetwork.of(plain).stored_features(images))


def test_training_keeps_the_statistics_of_normalisation(plain: ImageArtifact, episodes: Episodes) -> None:
    images = torch.from_numpy(plain.samples.images)
    network = FeatureNetwork.of(plain).copy()
    before = {name: value.clone() for name, value in network.backbone.named_buffers()}
    train_on_episodes(MetricMethod(network, prototype_logits), images, episodes, EpisodicSettings(episodes=3))
    assert before
    assert all(torch.equal(value, before[name]) for name, value in network.backbone.named_buffers())
    assert not torch.equal(network.stored_features(images), FeatureNetwork.of(plain).stored_features(images))


def test_a_loss_that_is_no_number_ends_the_training(plain: ImageArtifact, episodes: Episodes) -> None:
    images = torch.from_numpy(plain.samples.images)

    def nowhere(support: SupportSet, queries: torch.Tensor) -> torch.Tensor:
        return prototype_logits(support, queries) * float("nan")

    method = MetricMethod(FeatureNetwork.of(plain).copy(), nowhere)
    with pytest.raises(TrainingError, match="loss of training episode 0 is not finite; lower"):
        train_on_episodes(method, images, episodes, EpisodicSettings(episodes=3))


@pytest.mark.parametrize(("field", "value"), [("episodes", -1), ("batch", 0), ("learning_rate", 0.0)])
def test_settings_that_cannot_be_are_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"episodic\.{field} is {value}"):
        replace(EpisodicSettings(), **{field: value})  # type: ignore[arg-type]
