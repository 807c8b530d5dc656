"""When and from which examples a model's dictionary starts from data.

Shapes: N examples.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mntrain.config import ExperimentConfig
from mntrain.data.examples import IndexArray
from mntrain.errors import ConfigError
from mntrain.models.base import Model
from mntrain.models.data_start import StartsFromData
from mntrain.models.neighbors import HasNeighbors
from mntrain.models.queries import model_queries
from mntrain.training.setup import TrainingData

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_MOST_EXAMPLES = 100_000
_MOST_NUMBERS = 64_000_000  # of their queries: 256 MB


@dataclass(frozen=True, kw_only=True)
class StartPlan:
    """Plan of the start from data.

    Args:
        epoch: first epoch (from 0) that is trained with the dictionary; it is placed right before.
        seed: of k-means and of drawn examples.
    """

    epoch: int
    seed: int


def plan_start(config: ExperimentConfig, model: Model, *, trained: bool = False) -> StartPlan | None:
    """Plan the start of a run's model; None where nothing starts from data.

    Args:
        config: of the run.
        model: untrained.
        trained: whether its network starts from trained weights.

    Raises:
        ConfigError: no epoch would be left for the dictionary.
    """
    epoch = model.warm_up(config.training.epochs, trained=trained) if isinstance(model, StartsFromData) else None
    return None if epoch is None else StartPlan(epoch=epoch, seed=config.seed)


def resumed_plan(plan: StartPlan | None, placed: Mapping[str, Any], epochs: int, run: Path) -> StartPlan | None:
    """Plan the start of a run that goes on: a dictionary that was placed stays, however long the run is now.

    Args:
        plan: of the configuration to go on with.
        placed: figures of the start that lies behind; empty before it.
        epochs: number of epochs behind the run.
        run: folder of the run.

    Raises:
        ConfigError: with these settings the start would lie behind, but the run has had none.
    """
    if plan is None:
        return None
    if placed:
        return replace(plan, epoch=placed["warm_up"])
    if epochs > plan.epoch:
        raise ConfigError(
            f"Run {run} has {epochs} epochs without a dictionary behind it; with these training.epochs its dictionary "
            f"would have been placed after {plan.epoch}. Keep training.epochs as it was, or start again with "
            "--overwrite."
        )
    return plan


def place(plan: StartPlan, model: Model, data: TrainingData, fabric: "Fabric") -> dict[str, Any]:
    """Place the dictionary on training examples as they are stored, not augmented; alike in every process.

    Args:
        plan: seed.
        model: as it stands before the epoch of the start.
        data: training examples, and their way to inputs of the model.
        fabric: of the run.

    Returns:
        Figures of the start as plain values, with the number of epochs before it.
    """
    assert isinstance(model, StartsFromData)
    assert isinstance(model, HasNeighbors)
    was_training = model.training
    model.eval()
    try:
        width = math.prod(model.entry_keys().shape[1:])
        chosen = _chosen(data.train.targets, plan.seed, min(_MOST_EXAMPLES, _MOST_NUMBERS // width))
        queries = model_queries(model, data.preprocessing, data.train, chosen).clone()
        targets = torch.from_numpy(data.train.targets[chosen])
        figures = model.start_from(queries, targets, seed=plan.seed).to_json() | {"warm_up": plan.epoch}
    finally:
        model.train(was_training)
    # Processes compute the same start; on different machines the last digits may not be.
    for value in [*model.parameters(), *model.buffers()] if fabric.world_size > 1 else []:
        value.data.copy_(fabric.broadcast(value.data))
    return figures


def describe_start(figures: dict[str, Any]) -> str:
    """Put the figures of a start from data into words."""
    return (
        f"dictionary placed: {figures['entries']:,} entries from {figures['examples']:,} training examples; the step "
        f"size {figures['step_size']:.4g} changes the weights by {figures['weight_change']:.1%}"
    )


def _chosen(targets: np.ndarray[Any, Any], seed: int, most: int) -> IndexArray:
    """Positions of at most about ``most`` training examples, of each class its share but one at least."""
    total = len(targets)
    if total <= most:
        return np.arange(total)
    generator = np.random.default_rng(seed)
    if targets.dtype.kind == "f":
        return np.sort(generator.choice(total, size=most, replace=False))
    parts = [np.flatnonzero(targets == label) for label in np.unique(targets)]
    drawn = [generator.choice(part, size=-(-len(part) * most // total), replace=False) for part in parts]
    return np.sort(np.concatenate(drawn))
