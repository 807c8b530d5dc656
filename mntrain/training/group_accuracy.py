"""Accuracy of a classifier that was trained on a long tail: by groups of classes, and among the five likeliest.

Shapes: B batch, C classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mntrain.data.class_groups import CLASS_GROUPS, ClassGroup, class_groups
from mntrain.models.base import Prediction
from mntrain.training.evaluation import ACCURACY, Accuracy, Detail

_TOP = 5
_IMBALANCED = 2
"""Largest over smallest class from which a training split counts as imbalanced."""


class GroupAccuracy(Accuracy):
    """Accuracy, with details of each group of classes.

    Details are ``accuracy_GROUP``, ``unadapted_accuracy_GROUP`` where the family adapts, and ``top_5`` and
    ``top_5_GROUP`` where there are more than five classes.

    Args:
        groups: of each class, C names.
    """

    def __init__(self, groups: Sequence[ClassGroup]) -> None:
        self._members = {
            name: torch.tensor([group == name for group in groups]) for name in CLASS_GROUPS if name in groups
        }

    def details(self, prediction: Prediction, targets: Tensor) -> Mapping[str, Detail]:
        """Scores of each group, and of the five likeliest classes."""
        kinds = {self.name: self.score(prediction, targets)}
        unadapted = self.unadapted_score(prediction, targets)
        if unadapted is not None:
            kinds[f"unadapted_{self.name}"] = unadapted
        found: dict[str, Detail] = {}
        if prediction.logits.shape[-1] > _TOP:
            among = prediction.logits.topk(_TOP, dim=-1).indices == targets[:, None]
            kinds["top_5"] = among.any(dim=-1).float()
            found["top_5"] = Detail(kinds["top_5"], torch.ones_like(kinds["top_5"]))
        for group, members in self._members.items():
            weights = members.to(targets.device)[targets].float()
            found |= {f"{kind}_{group}": Detail(scores, weights) for kind, scores in kinds.items()}
        return found


def accuracy_for(counts: Sequence[int]) -> Accuracy:
    """Choose the accuracy that is reported of a classifier.

    Groups are told where training was imbalanced: the largest class has at least twice the examples of the smallest,
    and the classes are of several groups.

    Args:
        counts: training examples of each class, C.
    """
    groups = class_groups(np.asarray(counts, dtype=np.int64))
    if not counts or max(counts) < _IMBALANCED * max(1, min(counts)) or len(set(groups)) < 2:
        return ACCURACY
    return GroupAccuracy(groups)


def recorded_counts(data: Mapping[str, Any] | None, labels: Sequence[str]) -> list[int]:
    """Read the training examples of each class from the summary in an artifact; empty where it does not say them.

    Args:
        data: the summary (:class:`~mntrain.data.summary.record.RunRecord`); None where there is none.
        labels: class names.
    """
    try:
        counts = (data or {})["splits"]["train"]["classes"]
        return [int(counts[name]) for name in labels]
    except (LookupError, TypeError, ValueError):
        return []
