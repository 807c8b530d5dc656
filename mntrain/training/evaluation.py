"""Accuracy and loss of a model on a set of images.

Shapes: images uint8 [N, channels, H, W], logits [B, C].
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from mntrain.data.images import ImageSet
from mntrain.data.preprocessing import Preprocessing
from mntrain.models.base import Prediction


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What an evaluation found.

    Args:
        images: how many images were seen.
        accuracy: share of right answers, 0 to 1.
        loss: mean cross-entropy in nats.
        unadapted_accuracy: the same model answering before adaptation; None where the family does not adapt.
    """

    images: int
    accuracy: float
    loss: float
    unadapted_accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The part of a set that this process evaluates: every ``world_size``-th image from ``rank`` on."""

    rank: int = 0
    world_size: int = 1


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    preprocessing: Preprocessing,
    images: ImageSet,
    batch_size: int,
    *,
    shard: Shard = Shard(),
    advance: Callable[[int], None] = lambda images: None,
) -> Evaluation:
    """Evaluate in eval mode; the model's mode is restored.

    Args:
        model: maps normalised images to a :class:`Prediction`.
        preprocessing: on the device that the evaluation shall run on.
        images: the set; with several processes each passes the whole set and its own ``shard``.
        batch_size: images at a time.
        advance: called with the number of images after each batch.
    """
    device = preprocessing.scale.device
    part = slice(shard.rank, None, shard.world_size)
    pixels, labels = torch.from_numpy(images.images[part]), torch.from_numpy(images.labels[part])
    loss = MeanMetric().to(device)
    accuracy: MulticlassAccuracy | None = None
    unadapted: MulticlassAccuracy | None = None
    was_training = model.training
    model.eval()
    try:
        for start in range(0, len(labels), batch_size):
            chunk = slice(start, start + batch_size)
            target = labels[chunk].to(device)
            prediction: Prediction = model(preprocessing(pixels[chunk].to(device)))
            accuracy = _count(accuracy, prediction.logits, target)
            if prediction.unadapted_logits is not None:
                unadapted = _count(unadapted, prediction.unadapted_logits, target)
            loss.update(cross_entropy(prediction.logits, target), weight=len(target))
            advance(len(target))
    finally:
        model.train(was_training)
    assert accuracy is not None, "an image set has at least one image"
    return Evaluation(
        images=len(images),
        accuracy=float(accuracy.compute()),
        loss=float(loss.compute()),
        unadapted_accuracy=None if unadapted is None else float(unadapted.compute()),
    )


def _count(metric: MulticlassAccuracy | None, logits: Tensor, target: Tensor) -> MulticlassAccuracy:
    if metric is None:
        metric = MulticlassAccuracy(num_classes=logits.shape[-1], average="micro").to(logits.device)
    metric.update(logits, target)
    return metric
