"""What evaluation and episodic training know of a method.

Shapes: N images, K support images, Q queries, W ways.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mntrain.fewshot.network import FeatureNetwork
from mntrain.layers.heads import Head


class SupportSet(NamedTuple):
    """Labelled images of an episode.

    Args:
        images: [K, …], as a method's ``prepare`` answers them.
        labels: class of each within the episode, int64 [K].
        ways: W.
    """

    images: Tensor
    labels: Tensor
    ways: int


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptedClassifier:
    """What a method makes of a support set, where that is a network with a linear or cosine classifier.

    Args:
        network: that the method works on; it is left as it is.
        head: features [B, d] → logits [B, W].
        changed: parameters of the backbone that the support set has moved, by their names.
    """

    network: FeatureNetwork
    head: Head
    changed: Mapping[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Images uint8 [Q, C, H, W] → logits [Q, W]."""
        inputs = self.network.preprocessing(images)
        answers: Tensor = self.head(functional_call(self.network.backbone, dict(self.changed), (inputs,)))
        return answers


class FewShotMethod(Protocol):
    """Tells the classes of an episode apart."""

    def prepare(self, images: Tensor) -> Tensor:
        """Images uint8 [N, C, H, W] → what episodes take of them [N, …]; it depends on no episode."""

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Prepared queries [Q, …] → logits [Q, W], each query by itself."""


@runtime_checkable
class AdaptingMethod(FewShotMethod, Protocol):
    """A method whose answers are those of a network with a classifier, which can be kept."""

    def adapted(self, support: SupportSet) -> AdaptedClassifier:
        """Adapt to a prepared support set.

        Logits are those of ``classify``, but for a number that each query may add to all of its own.
        """


@runtime_checkable
class EpisodicMethod(FewShotMethod, Protocol):
    """A method that can be trained on episodes of other classes."""

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """List the parameters that episodes train."""

    def episode_loss(self, support: SupportSet, queries: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss [] of an episode with labels [Q], from images uint8 [K, …] and [Q, …]."""
