"""Methods that compare features: nearest neighbour, nearest mean and attention over the support set.

Shapes: K support images, Q queries, W ways, d features; supports [K, d], queries [Q, d], logits [Q, W].
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from mntrain.fewshot.method import AdaptedClassifier, SupportSet
from mntrain.fewshot.network import FeatureNetwork
from mntrain.layers.attention import unit
from mntrain.layers.heads import DotHead

_SHARPNESS = 10.0
"""Factor on the cosines of :func:`matching_logits`, as that of the cosine head at its start."""
_MOST_DIFFERENCES = 2**22
"""Numbers of differences between features at a time: 16 MiB in single precision."""

Rule = Callable[[SupportSet, Tensor], Tensor]
"""Supports and queries [Q, d] → logits [Q, W]."""


def class_means(support: SupportSet) -> Tensor:
    """Mean features [W, d] of each class."""
    members = one_hot(support.labels, support.ways).to(support.images.dtype).mT
    return members @ support.images / members.sum(dim=1, keepdim=True)


def nearest_logits(support: SupportSet, queries: Tensor) -> Tensor:
    """Negative squared distance to the nearest support image of each class."""
    distances = _squared_distances(queries, support.images)
    other = support.labels[None, :] != torch.arange(support.ways)[:, None]
    return -distances[:, None, :].masked_fill(other, float("inf")).amin(dim=2)


def prototype_logits(support: SupportSet, queries: Tensor) -> Tensor:
    """Negative squared distance to the mean of each class (Snell et al., NIPS 2017, eq. 2)."""
    return -_squared_distances(queries, class_means(support))


def mean_classifier(support: SupportSet) -> DotHead:
    """Write the nearest mean as a linear classifier: −‖z − m‖² is 2 (m − c)·z − ‖m‖² + ‖c‖² and a number of z alone.

    The center c of the means keeps the products small. Computed in double precision, since squares are subtracted.

    Args:
        support: features [K, d].
    """
    means = class_means(support._replace(images=support.images.double()))
    center = means.mean(dim=0)
    biases = center.square().sum() - means.square().sum(dim=1, keepdim=True)
    head = DotHead(means.shape[1], support.ways).to(support.images.dtype)
    with torch.no_grad():
        head.weight.copy_(torch.cat([2 * (means - center), biases], dim=1))
    return head


def matching_logits(support: SupportSet, queries: Tensor) -> Tensor:
    """Logarithm of the attention that each class gets, by the cosine (Vinyals et al., NIPS 2016, eq. 1)."""
    scores = _SHARPNESS * unit(queries) @ unit(support.images).mT
    other = support.labels[None, :] != torch.arange(support.ways)[:, None]
    by_class = scores.log_softmax(dim=1)[:, None, :].masked_fill(other, float("-inf"))
    return by_class.logsumexp(dim=2)


def _squared_distances(queries: Tensor, others: Tensor) -> Tensor:
    """Squared distances [Q, M] to others [M, d], as differences: an expansion would subtract large squares.

    Some queries at a time, so that their differences [·, M, d] stay small.
    """
    parts = torch.split(queries, max(1, _MOST_DIFFERENCES // max(1, others.numel())))
    return torch.cat([(part[:, None, :] - others[None, :, :]).square().sum(dim=2) for part in parts])


class MetricMethod:
    """A rule on features; trained on episodes, it trains the network.

    Args:
        network: a copy where it is to be trained.
        rule: such as :func:`prototype_logits`.
    """

    def __init__(self, network: FeatureNetwork, rule: Rule) -> None:
        self._network, self._rule = network, rule

    def prepare(self, images: Tensor) -> Tensor:
        """Features [N, d]."""
        return self._network.stored_features(images)

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Apply the rule to features."""
        return self._rule(support, queries)

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """List the parameters of the network."""
        return self._network.backbone.parameters()

    def episode_loss(self, support: SupportSet, queries: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy [] of the queries."""
        features = self._network.embed(torch.cat([support.images, queries]))
        known, asked = torch.split(features, [len(support.images), len(queries)])
        return cross_entropy(self._trained_logits(self._rule(support._replace(images=known), asked)), labels)

    def _trained_logits(self, logits: Tensor) -> Tensor:
        """Bring logits to the scale that the network is trained with."""
        return logits


class PrototypeMethod(MetricMethod):
    """Nearest mean, which is a linear classifier.

    It is trained with logits that deviate by 1 in the first episode. Squared distances of a trained network's features
    are in the hundreds: their softmax is sure of each answer, and the gradients of wrong ones undo what it knows.

    Args:
        network: a copy where it is to be trained.
    """

    def __init__(self, network: FeatureNetwork) -> None:
        super().__init__(network, prototype_logits)
        self._scale: Tensor | None = None

    def _trained_logits(self, logits: Tensor) -> Tensor:
        if self._scale is None:
            self._scale = 1 / logits.detach().std(dim=1).mean().clamp_min(torch.finfo(logits.dtype).tiny)
        return logits * self._scale

    def adapted(self, support: SupportSet) -> AdaptedClassifier:
        """Compute the classifier from support features [K, d]."""
        return AdaptedClassifier(network=self._network, head=mean_classifier(support))
