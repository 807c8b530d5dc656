"""Embed neighbors and training data in two dimensions (Fig. 5).

Shapes: N images, S entries, d features. features [N, d], keys [S, d].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from torch import Tensor

from mntrain.layers.attention import unit

_MOST_IMAGES, _MOST_ENTRIES = 1500, 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """Images and entries as points of a plane.

    Args:
        images: [N', 2].
        image_classes: int64 [N'].
        entries: [S', 2]; empty where there are none.
        entry_classes: int64 [S'], where v is largest.
    """

    images: NDArray[np.float32]
    image_classes: NDArray[np.int64]
    entries: NDArray[np.float32]
    entry_classes: NDArray[np.int64]


def embed(features: Tensor, labels: Tensor, keys: Tensor | None, values: Tensor | None, *, cosine: bool) -> Embedding:
    """Embed features and keys together by t-SNE, always with the same seed.

    Args:
        features: z [N, d]; at most 1,500 drawn at random are shown.
        labels: int64 [N].
        keys, values: k [S, d] and v [S, C]; at most 500 entries drawn at random are shown. None without entries.
        cosine: True if the model compares directions, so that lengths do not count.
    """
    random = np.random.default_rng(0)
    shown = random.permutation(len(features))[:_MOST_IMAGES]
    points, classes = features[shown], labels[shown]
    rows = [points]
    entry_classes = np.zeros(0, dtype=np.int64)
    if keys is not None and values is not None:
        chosen = np.sort(random.permutation(len(keys))[:_MOST_ENTRIES])
        rows.append(keys[chosen])
        entry_classes = values[chosen].argmax(dim=-1).numpy()
    joined = np.concatenate([(unit(row) if cosine else row).numpy() for row in rows])
    perplexity = min(30.0, (len(joined) - 1) / 3)
    flat = min(joined.shape) < 2 or not np.ptp(joined, axis=0).any()
    plane = TSNE(init="random" if flat else "pca", random_state=0, perplexity=perplexity).fit_transform(joined)
    return Embedding(
        images=plane[: len(points)],
        image_classes=classes.numpy(),
        entries=plane[len(points) :],
        entry_classes=entry_classes,
    )
