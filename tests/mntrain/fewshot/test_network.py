"""The network of an artifact: what it shares, what a copy does not, and its form with similarities."""

import pytest
import torch

from mntrain.artifact import ImageArtifact
from mntrain.errors import ConfigError
from mntrain.fewshot.network import FeatureNetwork


@pytest.fixture
def images(plain: ImageArtifact) -> torch.Tensor:
    return torch.from_numpy(plain.samples.images)


def test_similarities_start_as_the_identity_and_leave_the_answers_as_they_are(
    plain: ImageArtifact, images: torch.Tensor
) -> None:
    state = torch.random.get_rng_state()
    network = FeatureNetwork.with_static_similarity(plain)
    assert torch.equal(torch.random.get_rng_state(), state)
    similarities = network.similarities()
    assert len(similarities) == 3, "all convolutions but the first"
    assert all(torch.equal(value, torch.ones(9)) for value in similarities.values())
    torch.testing.assert_close(
        network.stored_features(images), FeatureNetwork.of(plain).stored_features(images), rtol=1e-5, atol=1e-6
    )


def test_a_network_of_another_similarity_is_refused(dynamic: ImageArtifact) -> None:
    with pytest.raises(ConfigError, match=r"with similarity mode 'dynamic'; .* Choose the method finetune"):
        FeatureNetwork.with_static_similarity(dynamic)


def test_a_copy_is_trained_alone(plain: ImageArtifact, images: torch.Tensor) -> None:
    network = FeatureNetwork.of(plain)
    before = network.stored_features(images).clone()
    copy = network.copy()
    copy.embed(images).sum().backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in copy.backbone.parameters():
            parameter.add_(1.0)
    assert torch.equal(FeatureNetwork.of(plain).stored_features(images), before)
    assert not any(module.training for module in copy.backbone.modules()), "normalisation stays as in evaluation"


def test_maps_are_the_features_before_they_are_laid_out_in_a_row(plain: ImageArtifact, images: torch.Tensor) -> None:
    network = FeatureNetwork.of(plain)
    with torch.no_grad():
        maps = network.embed_maps(images)
    assert maps.shape[1:] == (8, 1, 1)
    assert torch.equal(maps.flatten(1), network.stored_features(images))


def test_features_are_kept_for_one_set_of_images(plain: ImageArtifact, images: torch.Tensor) -> None:
    network = FeatureNetwork.of(plain)
    first = network.stored_features(images)
    assert network.stored_features(images) is first
    assert torch.equal(network.stored_features(images[:3].clone()), first[:3])
