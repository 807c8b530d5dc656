"""What evaluation and episodic training know of a method.

Shapes: N images, K support images, Q queries, W ways.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn


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


class FewShotMethod(Protocol):
    """Tells the classes of an episode apart."""

    def prepare(self, images: Tensor) -> Tensor:
        """Images uint8 [N, C, H, W] → what episodes take of them [N, …]; it depends on no episode."""

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Prepared queries [Q, …] → logits [Q, W], each query by itself."""


@runtime_checkable
class EpisodicMethod(FewShotMethod, Protocol):
    """A method that can be trained on episodes of other classes."""

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """List the parameters that episodes train."""

    def episode_loss(self, support: SupportSet, queries: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss [] of an episode with labels [Q], from images uint8 [K, …] and [Q, …]."""
