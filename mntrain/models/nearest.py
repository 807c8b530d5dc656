"""The training images nearest to every entry of a dictionary, in one pass with bounded memory.

Shapes: N images, S entries, d features, B images of a batch, n nearest images of an entry. features [B, d], keys
[S, d].
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageArray
from mntrain.errors import ArtifactError
from mntrain.models.neighbors import HasNeighbors

_BATCH = 250  # images
_MOST_SCORES = 4_000_000  # of the similarities held at a time, float32: 16 MB


@torch.inference_mode()
def nearest_positions(
    model: HasNeighbors,
    preprocessing: nn.Module,
    images: ImageArray,
    count: int,
    advance: Callable[[int], None] = lambda images: None,
) -> IndexArray:
    """Find positions int64 [S, n] of the ``count`` nearest of ``images``, by the model's similarity, nearest first.

    Args:
        model: in eval mode.
        preprocessing: in eval mode, of the same device.
        images: uint8 [N, channels, H, W], at least ``count`` of them; not augmented.
        count: n.
        advance: called with the number of images after each batch.

    Raises:
        ArtifactError: features of the model are not finite, so that no image is near.
    """
    nearest = NearestSoFar(model, count)
    for start in range(0, len(images), _BATCH):
        batch = torch.from_numpy(images[start : start + _BATCH])
        features = model.queries(preprocessing(batch))
        if not bool(torch.isfinite(features).all()):
            raise ArtifactError(
                f"The model has features of training images {start} to {start + len(batch) - 1} that are not finite, "
                "so no image is near to anything; train it again."
            )
        nearest.add(features, start)
        advance(len(batch))
    positions: IndexArray = nearest.positions.numpy()
    return positions


class NearestSoFar:
    """The n nearest images so far of every entry; it holds [S, n] and one block of [B, S] at a time.

    Args:
        model: entries and their similarity to features.
        count: n.
    """

    def __init__(self, model: HasNeighbors, count: int) -> None:
        self._model = model
        entries, size = len(model.entry_keys()), max(1, _MOST_SCORES // _BATCH)
        self._blocks = [slice(start, start + size) for start in range(0, entries, size)]
        self._scores = torch.full((entries, count), float("-inf"))
        self.positions = torch.full((entries, count), -1)

    def add(self, features: Tensor, first: int) -> None:
        """Add features [B, d] of the images from position ``first`` on.

        Of images that are equally near, the earlier ones stay.
        """
        count = self._scores.shape[1]
        for entries in self._blocks:
            nearest = self._model.comparable_similarity(features, entries).topk(min(count, len(features)), dim=0)
            scores = torch.cat([self._scores[entries], nearest.values.mT.cpu()], dim=1)
            positions = torch.cat([self.positions[entries], nearest.indices.mT.cpu() + first], dim=1)
            order = scores.argsort(dim=1, descending=True, stable=True)[:, :count]
            self._scores[entries] = scores.gather(1, order)
            self.positions[entries] = positions.gather(1, order)
