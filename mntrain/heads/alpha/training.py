"""Training of the coefficients on base logits.

Shapes: n rows of a batch, C classes, F few classes, K neighbors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from mntrain.errors import TrainingError
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.negatives import EpochRows
from mntrain.heads.alpha.network import CoefficientNetwork
from mntrain.heads.alpha.scores import BaseLogits, ComposedScores


@dataclass(frozen=True, kw_only=True)
class AlphaEpoch:
    """Course of one epoch.

    Args:
        epoch: from 1 on.
        loss: mean cross-entropy of its rows, while coefficients changed.
        learning_rate: of the epoch.
        own_coefficient: mean of α₀ after the epoch.
        at_bounds: share of all coefficients on a bound after the epoch.
    """

    epoch: int
    loss: float
    learning_rate: float
    own_coefficient: float
    at_bounds: float


EpochCallback = Callable[[AlphaEpoch], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class CoefficientTraining:
    """Training of a network on the rows of each epoch.

    Args:
        network: computes the coefficients.
        logits: base logits and labels.
        scores: scores of all classes by coefficients.
        rows: rows of each epoch.
        config: resolved settings.
    """

    network: CoefficientNetwork
    logits: BaseLogits
    scores: ComposedScores
    rows: EpochRows
    config: AlphaConfig

    def run(self, on_epoch: EpochCallback | None = None) -> tuple[AlphaEpoch, ...]:
        """Train by cross-entropy over all classes for all epochs; the network is changed in place.

        Args:
            on_epoch: called after each epoch.

        Raises:
            TrainingError: the loss is not finite.
        """
        with _subnormal_as_zero():
            return self._run(on_epoch)

    def _run(self, on_epoch: EpochCallback | None) -> tuple[AlphaEpoch, ...]:
        config = self.config
        optimizer = _optimizer(self.network, config)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, config.drop_every, config.drop_factor)
        curve: list[AlphaEpoch] = []
        for epoch, rows in zip(itertools.count(1), self.rows, strict=False):
            rate = float(optimizer.param_groups[0]["lr"])
            total = 0.0
            for start in range(0, len(rows), config.batch_size):
                batch = rows[start : start + config.batch_size]
                scores = self.scores(batch, self.network())
                loss = nn.functional.cross_entropy(scores, self.logits.labels[torch.from_numpy(batch)])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += loss.item() * len(batch)
            schedule.step()
            curve.append(self._described(epoch, total / len(rows), rate))
            if on_epoch is not None:
                on_epoch(curve[-1])
            if epoch == config.epochs:
                break
        return tuple(curve)

    def _described(self, epoch: int, loss: float, rate: float) -> AlphaEpoch:
        if not math.isfinite(loss):
            raise TrainingError(
                f"The loss of Alpha Net is not finite in epoch {epoch}; lower alpha.learning_rate ({rate:g}), or set "
                "alpha.clamp to both."
            )
        with torch.no_grad():
            coefficients = self.network()
        return AlphaEpoch(
            epoch=epoch,
            loss=loss,
            learning_rate=rate,
            own_coefficient=float(coefficients[:, 0].mean()),
            at_bounds=self.network.share_at_bounds(coefficients),
        )


@contextmanager
def _subnormal_as_zero() -> Iterator[None]:
    """Take numbers below 1.2e-38 as 0: momentum of coefficients on a bound decays to them, and they are slow."""
    before = float(torch.tensor(1e-38) * 0.1) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _optimizer(network: nn.Module, config: AlphaConfig) -> torch.optim.Optimizer:
    rate, decay = config.learning_rate, config.weight_decay or 0.0
    if config.optimizer == "sgd":
        return torch.optim.SGD(network.parameters(), rate, momentum=config.momentum, weight_decay=decay)
    return torch.optim.AdamW(network.parameters(), rate, weight_decay=decay)
