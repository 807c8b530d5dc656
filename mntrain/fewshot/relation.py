"""RelationNet: a small network that scores how well a query belongs to a class (Sung et al., CVPR 2018).

Shapes: K support images, Q queries, W ways; maps of features [B, c, h, w], scores [Q, W] in 0..1.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, one_hot

from mntrain.fewshot.method import SupportSet
from mntrain.fewshot.metric import class_means
from mntrain.fewshot.network import FeatureNetwork

_FILTERS, _UNITS = 64, 8


class RelationModule(nn.Module):
    """Two convolutions of the joined maps of class and query, and two linear layers.

    Maps are normalised pair by pair, where the paper takes the statistics of a batch: no query depends on another.

    Args:
        channels: c.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2 * channels, _FILTERS, 3, padding=1),
            nn.GroupNorm(1, _FILTERS),
            nn.ReLU(),
            nn.Conv2d(_FILTERS, _FILTERS, 3, padding=1),
            nn.GroupNorm(1, _FILTERS),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Linear(_FILTERS, _UNITS),
            nn.ReLU(),
            nn.Linear(_UNITS, 1),
        )

    def forward(self, classes: Tensor, queries: Tensor) -> Tensor:
        """Maps of classes [W, c, h, w] and queries [Q, c, h, w] → scores [Q, W]."""
        pairs = torch.cat(
            [
                classes.expand(len(queries), -1, -1, -1, -1),
                queries[:, None].expand(-1, len(classes), -1, -1, -1),
            ],
            dim=2,
        )
        scores: Tensor = self.layers(pairs.flatten(0, 1))
        return torch.sigmoid(scores).view(len(queries), len(classes))


class RelationMethod:
    """A learned comparison of maps; a class is the mean of its support maps, so that shots may differ from training.

    Args:
        network: a copy, which training changes.
        sample: one image uint8 [1, C, H, W], for the size of the maps.
    """

    def __init__(self, network: FeatureNetwork, sample: Tensor) -> None:
        self._network = network
        with torch.no_grad():
            channels = network.embed_maps(sample).shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._module = RelationModule(channels)

    def prepare(self, images: Tensor) -> Tensor:
        """Maps of features [N, c, h, w]."""
        with torch.no_grad():
            return torch.cat([self._network.embed_maps(part) for part in torch.split(images, 200)])

    def classify(self, support: SupportSet, queries: Tensor) -> Tensor:
        """Score maps of features [Q, c, h, w]."""
        with torch.no_grad():
            return self._score(support, queries)

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """List the parameters of network and module."""
        return [*self._network.backbone.parameters(), *self._module.parameters()]

    def episode_loss(self, support: SupportSet, queries: Tensor, labels: Tensor) -> Tensor:
        """Mean squared error [] of the scores to 1 for the class of a query and 0 for the others."""
        maps = self._network.embed_maps(torch.cat([support.images, queries]))
        known, asked = torch.split(maps, [len(support.images), len(queries)])
        scores = self._score(support._replace(images=known), asked)
        return mse_loss(scores, one_hot(labels, support.ways).to(scores.dtype))

    def _score(self, support: SupportSet, queries: Tensor) -> Tensor:
        means = class_means(support._replace(images=support.images.flatten(1)))
        scores: Tensor = self._module(means.view(-1, *support.images.shape[1:]), queries)
        return scores
