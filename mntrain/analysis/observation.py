"""Answers, features and attention of a classifier in one pass, for all sections of a report.

Shapes: N examples, C classes, d features, S entries.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mntrain.data.examples import IndexArray
from mntrain.data.images import ImageArray, ImageSet
from mntrain.data.tables import TableSet
from mntrain.models.base import Model, Prediction
from mntrain.models.neighbors import NeighborClassifier

_BATCH_ELEMENTS = 20_000_000  # of the largest intermediate, [B, C, S]: 80 MB
_MAX_BATCH = 250


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Answers of a classifier to some examples of a split, with its features and attention.

    Args:
        split: train or test.
        total: examples in the whole split.
        indices: int64 [N], positions of these examples in the split.
        examples: the images or rows, and their labels.
        features: z [N, d]; None where the model has no backbone of its own.
        logits: [N, C].
        unadapted: logits before adaptation [N, C]; None where the family does not adapt.
        attention: ω [N, S]; None where there are no entries.
    """

    split: str
    total: int
    indices: IndexArray
    examples: ImageSet | TableSet
    features: Tensor | None
    logits: Tensor
    unadapted: Tensor | None
    attention: Tensor | None

    @property
    def labels(self) -> Tensor:
        """Labels int64 [N]."""
        return torch.from_numpy(self.examples.targets)

    @property
    def images(self) -> ImageArray | None:
        """Images uint8 [N, channels, H, W]; None where the examples are rows."""
        return self.examples.images if isinstance(self.examples, ImageSet) else None


def batch_size(model: Model | NeighborClassifier) -> int:
    """Return the examples of a batch, so few that no intermediate of the update grows too large."""
    if not isinstance(model, NeighborClassifier):
        return _MAX_BATCH
    entries, classes = model.entry_values().shape
    return max(1, min(_MAX_BATCH, _BATCH_ELEMENTS // (entries * classes)))


def sample(examples: ImageSet | TableSet, limit: int) -> tuple[IndexArray, ImageSet | TableSet]:
    """Draw at most ``limit`` examples, always the same ones, in the order of the split."""
    if len(examples) <= limit:
        return np.arange(len(examples), dtype=np.int64), examples
    drawn = np.random.default_rng(0).choice(len(examples), size=limit, replace=False)
    indices = np.sort(drawn).astype(np.int64)
    return indices, examples.select(indices)


@torch.inference_mode()
def observe(
    model: Model,
    preprocessing: nn.Module,
    split: str,
    examples: ImageSet | TableSet,
    limit: int,
) -> Observed:
    """Run a classifier in eval mode on at most ``limit`` examples of a split."""
    indices, chosen = sample(examples, limit)
    size = batch_size(model)
    features, logits, unadapted, weights = [], [], [], []
    backbone = getattr(model, "backbone", None)
    for start in range(0, len(chosen), size):
        inputs = preprocessing(torch.from_numpy(chosen.inputs[start : start + size]))
        if isinstance(model, NeighborClassifier):
            z = model.queries(inputs)
            prediction = model.classify(z)
            weights.append(model.attention_over_all(z))
            features.append(z)
        else:
            prediction = model(inputs)
            if isinstance(backbone, nn.Module):
                features.append(backbone(inputs))
        assert isinstance(prediction, Prediction)
        logits.append(prediction.logits)
        if prediction.unadapted_logits is not None:
            unadapted.append(prediction.unadapted_logits)
    return Observed(
        split=split,
        total=len(examples),
        indices=indices,
        examples=chosen,
        features=torch.cat(features) if features else None,
        logits=torch.cat(logits),
        unadapted=torch.cat(unadapted) if unadapted else None,
        attention=torch.cat(weights) if weights else None,
    )
