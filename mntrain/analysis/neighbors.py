"""Images nearest to learned neighbors (Fig. 9 and 10).

Shapes: N images, S entries, C classes, d features. features [N, d], attention ω [N, S], values v [S, C].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.models.neighbors import NeighborClassifier

_NEAREST, _MOST_ROWS, _MOST_PER_CLASS = 5, 30, 3


@dataclass(frozen=True, kw_only=True)
class NearestImages:
    """Entry of the dictionary, and the images nearest to it.

    Args:
        entry: its number j.
        entry_class: where v_j is largest.
        certainty: v_j of that class.
        images: positions of the nearest images, nearest first.
    """

    entry: int
    entry_class: int
    certainty: float
    images: tuple[int, ...]


@torch.inference_mode()
def nearest_images(model: NeighborClassifier, features: Tensor, weights: Tensor) -> tuple[NearestImages, ...]:
    """Find the nearest images of the entries of each class that get most attention, by the model's own similarity.

    Of more than 30 classes, those whose entries get most attention are taken, in the order of the classes.

    Args:
        features: z [N, d].
        weights: ω [N, S].
    """
    values, classes = model.entry_values(), model.entry_labels()
    share = weights.mean(dim=0)
    rows = []
    per_class = max(1, min(_MOST_PER_CLASS, _MOST_ROWS // values.shape[1]))
    present = torch.unique(classes)
    attention = torch.zeros(values.shape[1], dtype=share.dtype).index_add(0, classes, share)
    chosen = present[attention[present].argsort(descending=True, stable=True)[:_MOST_ROWS]].sort().values
    for index in chosen.tolist():
        entries_of_class = torch.nonzero(classes == index).squeeze(-1)
        most_used = entries_of_class[share[entries_of_class].argsort(descending=True, stable=True)[:per_class]]
        scores = model.comparable_similarity(features, most_used)
        nearest = scores.topk(min(_NEAREST, len(features)), dim=0).indices
        rows += [
            NearestImages(
                entry=int(entry),
                entry_class=int(index),
                certainty=float(values[entry, index]),
                images=tuple(nearest[:, column].tolist()),
            )
            for column, entry in enumerate(most_used.tolist())
        ]
    return tuple(rows)
