"""Rules on features against numbers worked out by hand, and against their definitions."""

import pytest
import torch

from mntrain.artifact import ImageArtifact
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import MetricMethod, class_means, matching_logits, nearest_logits, prototype_logits
from mntrain.fewshot.network import FeatureNetwork

SUPPORT = SupportSet(torch.tensor([[0.0, 0.0], [4.0, 2.0], [2.0, 0.0], [0.0, 2.0]]), torch.tensor([1, 0, 1, 0]), 2)
QUERIES = torch.tensor([[1.0, 1.0], [2.0, 0.5]])


def test_the_means_and_distances_of_protonet_by_hand() -> None:
    assert class_means(SUPPORT).tolist() == [[2.0, 2.0], [1.0, 0.0]]
    assert prototype_logits(SUPPORT, QUERIES).tolist() == [[-2.0, -1.0], [-2.25, -1.25]]


def test_the_nearest_image_of_each_class_by_hand() -> None:
    assert nearest_logits(SUPPORT, QUERIES).tolist() == [[-2.0, -2.0], [-6.25, -0.25]]


def test_attention_over_the_support_set_against_its_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    support = SupportSet(torch.randn(9, 5, generator=generator), torch.tensor([2, 0, 1, 1, 0, 2, 2, 0, 1]), 3)
    queries = torch.randn(4, 5, generator=generator)
    logits = matching_logits(support, queries)
    for row, query in zip(logits, queries, strict=True):
        weights = torch.stack(
            [torch.exp(10 * torch.dot(query, one) / (query.norm() * one.norm())) for one in support.images]
        )
        shares = [(weights[support.labels == label].sum() / weights.sum()).item() for label in range(3)]
        torch.testing.assert_close(row.exp(), torch.tensor(shares))


def test_one_shot_makes_nearest_and_protonet_the_same() -> None:
    generator = torch.Generator().manual_seed(1)
    support = SupportSet(torch.randn(4, 6, generator=generator), torch.tensor([3, 1, 0, 2]), 4)
    queries = torch.randn(7, 6, generator=generator)
    torch.testing.assert_close(nearest_logits(support, queries), prototype_logits(support, queries))


def test_many_queries_take_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(2)
    support = SupportSet(torch.randn(6, 5, generator=generator), torch.arange(6) % 3, 3)
    queries = torch.randn(11, 5, generator=generator)
    rules = (nearest_logits, prototype_logits)
    whole = [rule(support, queries) for rule in rules]
    largest: list[int] = []
    square = torch.Tensor.square

    def watched(values: torch.Tensor) -> torch.Tensor:
        largest.append(values.numel())
        return square(values)

    monkeypatch.setattr("mntrain.fewshot.metric._MOST_DIFFERENCES", 60)
    monkeypatch.setattr(torch.Tensor, "square", watched)
    assert all(torch.equal(rule(support, queries), before) for rule, before in zip(rules, whole, strict=True))
    assert max(largest) == 60
    assert nearest_logits(support, queries[:0]).shape == (0, 3)


def test_a_method_answers_with_the_features_of_the_network(plain: ImageArtifact) -> None:
    network = FeatureNetwork.of(plain)
    method = MetricMethod(network, prototype_logits)
    images = torch.from_numpy(plain.samples.images)
    prepared = method.prepare(images)
    with torch.no_grad():
        features = network.backbone(plain.preprocessing(images))
    torch.testing.assert_close(prepared, features)
    assert not prepared.requires_grad
    support = SupportSet(prepared[:4], torch.tensor([0, 1, 0, 1]), 2)
    one_by_one = torch.cat([method.classify(support, query[None]) for query in prepared[4:8]])
    torch.testing.assert_close(method.classify(support, prepared[4:8]), one_by_one)


def test_the_loss_of_an_episode_is_the_cross_entropy_of_its_answers(plain: ImageArtifact) -> None:
    network = FeatureNetwork.of(plain).copy()
    method = MetricMethod(network, prototype_logits)
    images = torch.from_numpy(plain.samples.images[:6])
    support, labels = SupportSet(images[:4], torch.tensor([0, 1, 1, 0]), 2), torch.tensor([1, 0])
    loss = method.episode_loss(support, images[4:], labels)
    features = method.prepare(images)
    logits = method.classify(support._replace(images=features[:4]), features[4:])
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, labels))
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in method.trained_parameters())
