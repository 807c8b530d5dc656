"""Fits to the support set, against gradients written out and against what must not change."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from mntrain.artifact import ImageArtifact
from mntrain.errors import ConfigError
from mntrain.fewshot.finetuning import (
    FinetunedClassifier,
    FinetunedSimilarity,
    FinetuneSettings,
    HeadStart,
    _first_head,
)
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import prototype_logits
from mntrain.fewshot.network import FeatureNetwork
from mntrain.layers.heads import HeadKind

PLAIN_SGD = FinetuneSettings(momentum=0.0, dampening=0.0, weight_decay=0.0)


@pytest.fixture
def support(plain: ImageArtifact) -> SupportSet:
    return SupportSet(torch.from_numpy(plain.samples.images[:6]), torch.tensor([0, 1, 2, 2, 1, 0]), 3)


@pytest.fixture
def queries(plain: ImageArtifact) -> torch.Tensor:
    return torch.from_numpy(plain.samples.images[6:12])


@pytest.fixture
def network(plain: ImageArtifact) -> FeatureNetwork:
    return FeatureNetwork.with_static_similarity(plain)


def embedded(network: FeatureNetwork, support: SupportSet) -> SupportSet:
    return support._replace(images=network.stored_features(support.images))


@pytest.mark.parametrize("classifier", ["dot", "cosine"])
@pytest.mark.parametrize("start", ["random", "means"])
def test_static_nsn_without_steps_is_the_start_of_the_classifier(
    network: FeatureNetwork, support: SupportSet, queries: torch.Tensor, classifier: HeadKind, start: HeadStart
) -> None:
    settings = replace(FinetuneSettings(epochs=0), classifier=classifier, start=start)
    logits = FinetunedSimilarity(network, settings).classify(support, queries)
    features = network.stored_features(queries)
    alone = FinetunedClassifier(network, settings).classify(embedded(network, support), features)
    torch.testing.assert_close(logits, alone)


def test_the_start_from_means_answers_as_the_nearest_mean(
    network: FeatureNetwork, support: SupportSet, queries: torch.Tensor
) -> None:
    settings = FinetuneSettings(epochs=0, start="means")
    logits = FinetunedSimilarity(network, settings).classify(support, queries)
    expected = prototype_logits(embedded(network, support), network.stored_features(queries))
    torch.testing.assert_close(logits.softmax(dim=1), expected.softmax(dim=1))


def test_a_step_on_the_classifier_against_its_gradient_written_out(network: FeatureNetwork) -> None:
    generator = torch.Generator().manual_seed(0)
    support = SupportSet(torch.randn(4, 5, generator=generator), torch.tensor([0, 1, 1, 0]), 2)
    settings = replace(PLAIN_SGD, start="means", epochs=1, batch=4, learning_rate=0.1)
    queries = torch.randn(3, 5, generator=generator)
    means = torch.stack([support.images[support.labels == label].mean(dim=0) for label in range(2)])
    weight, bias = 2 * means, -means.square().sum(dim=1)
    errors = (support.images @ weight.T + bias).softmax(dim=1) - torch.eye(2)[support.labels]
    weight, bias = weight - 0.1 * errors.T @ support.images / 4, bias - 0.1 * errors.mean(dim=0)
    logits = FinetunedClassifier(network, settings).classify(support, queries)
    torch.testing.assert_close(logits, queries @ weight.T + bias)


def test_passes_of_the_published_settings_are_written_out(network: FeatureNetwork) -> None:
    """SGD with momentum and dampening of 0.9, decay of the classifier, and batches in a new order in each pass."""
    generator = torch.Generator().manual_seed(0)
    support = SupportSet(torch.randn(10, 6, generator=generator), torch.arange(5).repeat(2), 5)
    queries = torch.randn(7, 6, generator=generator)
    settings = FinetuneSettings(epochs=7)
    weight = _first_head(support, settings).weight.detach().clone()
    inputs = torch.cat([support.images, torch.ones(10, 1)], dim=1)
    order, moved = torch.Generator().manual_seed(settings.seed), None
    for _ in range(7):
        for rows in torch.split(torch.randperm(10, generator=order), 4):
            errors = (inputs[rows] @ weight.T).softmax(dim=1) - torch.eye(5)[support.labels[rows]]
            gradient = errors.T @ inputs[rows] / len(rows) + 0.001 * weight
            moved = gradient if moved is None else 0.9 * moved + (1 - 0.9) * gradient
            weight = weight - 0.01 * moved
    expected = queries @ weight[:, :-1].T + weight[:, -1]
    torch.testing.assert_close(FinetunedClassifier(network, settings).classify(support, queries), expected)


def test_a_step_on_similarities_against_autograd(
    network: FeatureNetwork, support: SupportSet, queries: torch.Tensor
) -> None:
    """Both rates act, each on its own: the step of M is that of its rate, without decay."""
    settings = replace(PLAIN_SGD, start="means", epochs=1, batch=6, similarity_rate=0.5, weight_decay=0.3)
    logits = FinetunedSimilarity(network, settings).classify(support, queries)
    features = network.stored_features(support.images)
    means = torch.stack([features[support.labels == label].mean(dim=0) for label in range(3)])
    weight = torch.cat([2 * means, -means.square().sum(dim=1, keepdim=True)], dim=1).requires_grad_()
    copy = network.copy()
    loss = cross_entropy(copy.embed(support.images) @ weight[:, :-1].T + weight[:, -1], support.labels)
    similarities = list(copy.similarities().values())
    slope, *slopes = torch.autograd.grad(loss, [weight, *similarities])
    with torch.no_grad():
        for value, gradient in zip(similarities, slopes, strict=True):
            value.sub_(0.5 * gradient)
        weight = weight - 0.01 * (slope + 0.3 * weight)
        expected = copy.embed(queries) @ weight[:, :-1].T + weight[:, -1]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert any(gradient.abs().max() > 1e-6 for gradient in slopes)


def test_the_network_is_as_it_was_after_a_fit(
    network: FeatureNetwork, support: SupportSet, queries: torch.Tensor
) -> None:
    before = {name: value.clone() for name, value in network.backbone.state_dict().items()}
    method = FinetunedSimilarity(network, FinetuneSettings(epochs=3, similarity_rate=0.1))
    first = method.classify(support, queries)
    assert all(torch.equal(value, before[name]) for name, value in network.backbone.state_dict().items())
    assert torch.equal(method.classify(support, queries), first), "an episode leaves nothing for the next"


def test_more_passes_fit_the_support_set_better(network: FeatureNetwork, support: SupportSet) -> None:
    features = embedded(network, support)

    def loss(epochs: int) -> float:
        method = FinetunedClassifier(network, FinetuneSettings(epochs=epochs, learning_rate=0.1))
        return cross_entropy(method.classify(features, features.images), support.labels).item()

    assert loss(60) < loss(20) < loss(0)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("classifier", "svm", "finetune.classifier is 'svm'; it must be cosine or dot"),
        ("start", "zero", "finetune.start is 'zero'; it must be random or means"),
        ("batch", 0, "finetune.batch is 0; it must be from 1 to"),
        ("momentum", 1.5, "finetune.momentum is 1.5; it must be from 0 to 1"),
        ("learning_rate", float("nan"), "finetune.learning_rate is nan"),
    ],
)
def test_settings_that_cannot_be_are_refused(field: str, value: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        replace(FinetuneSettings(), **{field: value})  # type: ignore[arg-type]
