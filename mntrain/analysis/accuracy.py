"""Accuracy before and after adaptation, overall and class by class.

Shapes: N images, C classes. logits [N, C], labels [N].
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ClassAccuracy:
    """Accuracy on one class.

    Args:
        images: number of images of the class.
        before, after: share of right answers; None where there are no images.
    """

    images: int
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True)
class AdaptationAccuracy:
    """Effect of adaptation on the answers.

    Args:
        before, after: share of right answers.
        corrected: number of images that are right only after adaptation.
        broken: number of images that are right only before adaptation.
        classes: accuracy on each class.
    """

    before: float
    after: float
    corrected: int
    broken: int
    classes: tuple[ClassAccuracy, ...]


def adaptation_accuracy(unadapted: Tensor, logits: Tensor, labels: Tensor) -> AdaptationAccuracy:
    """Compare the answers [N, C] before and after with the labels [N]."""
    before, after = unadapted.argmax(dim=-1) == labels, logits.argmax(dim=-1) == labels
    classes = []
    for index in range(logits.shape[1]):
        of_class = labels == index
        images = int(of_class.sum())
        classes.append(
            ClassAccuracy(
                images=images,
                before=_share(before[of_class]) if images else None,
                after=_share(after[of_class]) if images else None,
            )
        )
    return AdaptationAccuracy(
        before=_share(before),
        after=_share(after),
        corrected=int((after & ~before).sum()),
        broken=int((before & ~after).sum()),
        classes=tuple(classes),
    )


def _share(right: Tensor) -> float:
    return float(right.to(torch.float64).mean())
