"""Accuracy before and after adaptation, overall and class by class.

Shapes: N images, C classes. logits [N, C], labels [N].
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ClassAccuracy:
    """One class.

    Args:
        images: of the class.
        before, after: share of right answers; None where there are no images.
    """

    images: int
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True)
class AdaptationAccuracy:
    """What adaptation does to the answers.

    Args:
        before, after: share of right answers.
        corrected: images that only adaptation gets right.
        broken: images that adaptation gets wrong.
        classes: one for each class.
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
        mine = labels == index
        images = int(mine.sum())
        classes.append(
            ClassAccuracy(
                images=images,
                before=_share(before[mine]) if images else None,
                after=_share(after[mine]) if images else None,
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
