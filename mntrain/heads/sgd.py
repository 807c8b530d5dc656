"""Training of a last layer on stored features by SGD.

Shapes: N rows, B batch, d features, C classes. inputs [B, d], logits [B, C].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mntrain.data.classes.order import Sampling, epoch_order
from mntrain.data.examples import IndexArray
from mntrain.errors import TrainingError
from mntrain.feature_store.store import FeatureSplit
from mntrain.heads.feature_scale import FeatureScale
from mntrain.heads.grid import Grid, GridChoice
from mntrain.heads.settings import HeadSettings


@dataclass(frozen=True, kw_only=True)
class SgdPlan:
    """Plan of a training.

    Args:
        settings: batch size, momentum and weight decay.
        sampling: draw of the rows.
        steps: number of batches.
        rate: learning rate of the first step; it falls to 0 along half a cosine.
        seed: of the draw.
    """

    settings: HeadSettings
    sampling: Sampling
    steps: int
    rate: float
    seed: int


def rates_of(settings: HeadSettings) -> Grid:
    """Return the learning rates to choose from: that of the settings alone, where one is given."""
    if settings.learning_rate:
        rate = settings.learning_rate
        return Grid(name="learning_rate", values=(rate,), least=rate, most=rate, factor=1.0)
    return Grid(name="learning_rate", values=(0.002, 0.02, 0.2), least=2e-5, most=2.0, factor=10.0)


def unlearned(method: str, choice: GridChoice) -> TrainingError:
    """Return the error of a method that no rate makes a head of."""
    tried = ", ".join(f"{rate:g}" for rate in choice.values)
    return TrainingError(
        f"Method {method!r} ends in weights that are not finite with learning rate(s) {tried}; lower "
        "--head.learning_rate."
    )


def step_count(settings: HeadSettings, rows: int, epochs: int) -> int:
    """Count the steps of training on a number of ``rows``; ``epochs`` are those of the method itself."""
    batches = rows // min(rows, settings.batch_size)
    return max(settings.least_steps, (settings.epochs or epochs) * batches, 1)


def train_by_sgd(layer: nn.Module, split: FeatureSplit, scale: FeatureScale, plan: SgdPlan) -> bool:
    """Train the parameters of ``layer`` by the cross-entropy; weight decay acts on all of them.

    Rows are read from the store batch by batch, and standardised then.

    Args:
        layer: inputs → logits.
        split: rows to learn from.
        scale: their standardisation.
        plan: rate, steps and draw.

    Returns:
        Whether all parameters are finite at the end.
    """
    settings = plan.settings
    parameters = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(
        parameters, lr=plan.rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=plan.steps)
    for inputs, labels in _batches(split, scale, plan):
        optimizer.zero_grad(set_to_none=True)
        cross_entropy(layer(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return all(bool(torch.isfinite(parameter).all()) for parameter in parameters)


def _batches(split: FeatureSplit, scale: FeatureScale, plan: SgdPlan) -> Iterator[tuple[Tensor, Tensor]]:
    for rows in islice(_positions(split, plan), plan.steps):
        ordered = np.sort(rows)  # a mapped file is read in its order
        yield torch.from_numpy(scale.rows(split.features[ordered])), torch.from_numpy(split.labels[ordered])


def _positions(split: FeatureSplit, plan: SgdPlan) -> Iterator[IndexArray]:
    """Draw the rows of every batch, epoch after epoch; what fills no batch is left out of its epoch."""
    size = min(len(split), plan.settings.batch_size)
    for epoch in count():
        order = epoch_order(split.labels, plan.sampling, seed=plan.seed, epoch=epoch)
        for start in range(0, len(order) - size + 1, size):
            yield order[start : start + size]
