"""RelationNet: scores of pairs, alone and in a batch, and its loss."""

import torch

from mntrain.artifact import ImageArtifact
from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.network import FeatureNetwork
from mntrain.fewshot.relation import RelationMethod, RelationModule


def test_each_pair_is_scored_by_itself() -> None:
    torch.manual_seed(0)
    module = RelationModule(3)
    classes, queries = torch.randn(4, 3, 5, 5), torch.randn(6, 3, 5, 5)
    scores = module(classes, queries)
    assert scores.shape == (6, 4)
    assert bool(((scores > 0) & (scores < 1)).all())
    torch.testing.assert_close(module(classes[2:3], queries[4:5]), scores[4:5, 2:3])
    pair = torch.cat([classes[1], queries[3]])[None]
    torch.testing.assert_close(torch.sigmoid(module.layers(pair))[0, 0], scores[3, 1])


def test_the_loss_is_the_squared_error_of_the_scores(plain: ImageArtifact) -> None:
    images = torch.from_numpy(plain.samples.images[:8])
    method = RelationMethod(FeatureNetwork.of(plain).copy(), images[:1])
    support, labels = SupportSet(images[:4], torch.tensor([0, 1, 1, 0]), 2), torch.tensor([1, 0, 0, 1])
    loss = method.episode_loss(support, images[4:], labels)
    maps = method.prepare(images)
    scores = method.classify(support._replace(images=maps[:4]), maps[4:])
    expected = (scores - torch.eye(2)[labels]).square().mean()
    torch.testing.assert_close(loss, expected)
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in method.trained_parameters())


def test_its_start_is_the_same_each_time(plain: ImageArtifact) -> None:
    images = torch.from_numpy(plain.samples.images[:4])
    support = SupportSet(images[:2], torch.tensor([0, 1]), 2)
    answers = []
    for _ in range(2):
        method = RelationMethod(FeatureNetwork.of(plain).copy(), images[:1])
        maps = method.prepare(images)
        answers.append(method.classify(support._replace(images=maps[:2]), maps[2:]))
    assert torch.equal(*answers)
