"""Vary the number of entries and the temperature of a trained model at inference (after Fig. 8).

Shapes: N images, S entries, C classes, d features. features z [N, d], labels [N].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mntrain.analysis.observation import batch_size
from mntrain.models.neighbors import NeighborClassifier

_SHARES = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_SUBSETS = 3
_BUDGET = 4e11  # multiplications, so that large dictionaries take a minute and not an hour
_FEWEST = 200


@dataclass(frozen=True, kw_only=True)
class AblationPoint:
    """Accuracy at one setting.

    Args:
        value: S or T.
        accuracies: accuracy with each random subset of entries; a single one with all entries.
    """

    value: float
    accuracies: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """Accuracy against S and against T.

    Args:
        images: number of images.
        entries: accuracy with random subsets of entries.
        temperatures: accuracy with temperatures around the trained one.
    """

    images: int
    entries: tuple[AblationPoint, ...]
    temperatures: tuple[AblationPoint, ...]


@torch.inference_mode()
def ablate(model: NeighborClassifier, features: Tensor, labels: Tensor) -> Ablation:
    """Measure accuracy with fewer entries, and with other temperatures; features do not change."""
    entries, classes = model.entry_values().shape
    passes = _SUBSETS * sum(_SHARES) + len(_FACTORS)
    images = max(_FEWEST, int(_BUDGET / (passes * entries * classes * features.shape[1])))
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(labels), generator=generator)[:images]
    z, y = features[chosen], labels[chosen]
    points = []
    for size in sorted({max(1, round(share * entries)) for share in _SHARES}):
        draws = _SUBSETS if size < entries else 1
        subsets = [torch.randperm(entries, generator=generator)[:size] for _ in range(draws)]
        points.append(
            AblationPoint(
                value=size,
                accuracies=tuple(accuracy_with(model, z, y, subset, model.temperature) for subset in subsets),
            )
        )
    everything = torch.arange(entries)
    temperatures = tuple(
        AblationPoint(
            value=model.temperature * factor,
            accuracies=(accuracy_with(model, z, y, everything, model.temperature * factor),),
        )
        for factor in _FACTORS
    )
    return Ablation(images=len(z), entries=tuple(points), temperatures=temperatures)


def accuracy_with(
    model: NeighborClassifier, features: Tensor, labels: Tensor, entries: Tensor, temperature: float
) -> float:
    """Return the share of right answers with some of the entries and another temperature.

    Args:
        features: z [N, d].
        labels: int64 [N].
        entries: int64 [S'], positions of the entries that stay.
    """
    right = 0
    size = batch_size(model)
    for start in range(0, len(labels), size):
        z, y = features[start : start + size], labels[start : start + size]
        logits = model.logits_among(z, entries, temperature)
        right += int((logits.argmax(dim=-1) == y).sum())
    return right / len(labels)
