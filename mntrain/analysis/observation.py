"""One pass over images: everything that the sections of a report look at.

Shapes: N images, C classes, d features, S entries.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mntrain.data.images import ImageSet, IndexArray
from mntrain.data.preprocessing import Preprocessing
from mntrain.models.base import Model, Prediction
from mntrain.models.meta_neighborhoods.attention import attention, key_index, similarity
from mntrain.models.meta_neighborhoods.model import MetaNeighborhoods

_BATCH_ELEMENTS = 20_000_000  # of the largest intermediate, [B, C, S]: 80 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What a model makes of some images of a split.

    Args:
        split: train or test.
        total: images in the whole split.
        indices: int64 [N], positions of these images in the split.
        images: the images and their labels.
        features: z [N, d]; None where the model has no backbone of its own.
        logits: [N, C].
        unadapted: logits before adaptation [N, C]; None where the family does not adapt.
        attention: ω [N, S]; None where there are no entries.
    """

    split: str
    total: int
    indices: IndexArray
    images: ImageSet
    features: Tensor | None
    logits: Tensor
    unadapted: Tensor | None
    attention: Tensor | None

    @property
    def labels(self) -> Tensor:
        """int64 [N]."""
        return torch.from_numpy(self.images.labels)


def batch_size(model: Model, most: int = 250) -> int:
    """Images at a time, such that no intermediate of the inner update outgrows its limit."""
    if not isinstance(model, MetaNeighborhoods):
        return most
    entries, classes = model.dictionary.values().shape
    return max(1, min(most, _BATCH_ELEMENTS // (entries * classes)))


def sample(split: str, images: ImageSet, most: int) -> tuple[IndexArray, ImageSet]:
    """At most ``most`` images drawn at random, always the same ones, in the order of the split."""
    if len(images) <= most:
        return np.arange(len(images), dtype=np.int64), images
    drawn = np.random.default_rng(0).choice(len(images), size=most, replace=False)
    indices = np.sort(drawn).astype(np.int64)
    return indices, images.select(indices)


@torch.inference_mode()
def observe(
    model: Model,
    preprocessing: Preprocessing,
    split: str,
    images: ImageSet,
    most: int,
    *,
    advance: Callable[[int], None] = lambda images: None,
) -> Observed:
    """Look at no more than ``most`` images of a split; the model is in eval mode already."""
    indices, chosen = sample(split, images, most)
    size = batch_size(model)
    features, logits, unadapted, weights = [], [], [], []
    backbone = getattr(model, "backbone", None)
    for start in range(0, len(chosen), size):
        pixels = preprocessing(torch.from_numpy(chosen.images[start : start + size]))
        if isinstance(model, MetaNeighborhoods):
            z = model.backbone(pixels)
            prediction = model.classify(z)
            weights.append(attention_of(model, z))
            features.append(z)
        else:
            prediction = model(pixels)
            if isinstance(backbone, nn.Module):
                features.append(backbone(pixels))
        assert isinstance(prediction, Prediction)
        logits.append(prediction.logits)
        if prediction.unadapted_logits is not None:
            unadapted.append(prediction.unadapted_logits)
        advance(len(pixels))
    return Observed(
        split=split,
        total=len(images),
        indices=indices,
        images=chosen,
        features=torch.cat(features) if features else None,
        logits=torch.cat(logits),
        unadapted=torch.cat(unadapted) if unadapted else None,
        attention=torch.cat(weights) if weights else None,
    )


def attention_of(model: MetaNeighborhoods, features: Tensor) -> Tensor:
    """ω [N, S] over all entries."""
    index = key_index(model.dictionary.keys, model.similarity)
    return attention(similarity(features, index), model.temperature)
