"""Alpha Net as a stage: training rows, a base classifier and settings → a composed classifier and its record.

Shapes: C classes, d features, F few classes, K neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from mntrain.heads.alpha.compose import compose
from mntrain.heads.alpha.config import AlphaConfig
from mntrain.heads.alpha.inputs import module_inputs, reduce_classifiers
from mntrain.heads.alpha.negatives import EpochRows
from mntrain.heads.alpha.neighbors import ClassNeighbors, nearest_classes
from mntrain.heads.alpha.network import CoefficientNetwork
from mntrain.heads.alpha.problem import AlphaProblem
from mntrain.heads.alpha.record import AlphaRecord
from mntrain.heads.alpha.scores import ComposedScores
from mntrain.heads.alpha.training import CoefficientTraining, EpochCallback
from mntrain.heads.classifier import LinearClassifier


@dataclass(frozen=True, kw_only=True, eq=False)
class AlphaResult:
    """Composed classifier and its record.

    Args:
        classifier: of all classes; those of base classes are the base classifier's own.
        record: neighbors, coefficients, curve and settings.
    """

    classifier: LinearClassifier
    record: AlphaRecord


def find_neighbors(problem: AlphaProblem, config: AlphaConfig) -> ClassNeighbors:
    """Find the nearest classes of each few class among those that ``config.source`` names (appendix D).

    Raises:
        ConfigError: there are fewer than K.
    """
    candidates = problem.data.groups.members(config.source)
    return nearest_classes(problem.means, problem.data.few, candidates, config.neighbors)


def compose_few_classes(
    problem: AlphaProblem, config: AlphaConfig, seed: int, on_epoch: EpochCallback | None = None
) -> AlphaResult:
    """Learn the coefficients of all few classes, and fold them into one linear classifier (section 3.2).

    Args:
        problem: rows, base classifier, class means and base logits, from
            :func:`~mntrain.heads.alpha.problem.prepare`.
        config: settings.
        seed: of first weights, negatives and their order.
        on_epoch: called after each epoch.

    Raises:
        ConfigError: more neighbors than classes to choose among, or more components than classifiers have.
        TrainingError: the loss is not finite.
    """
    config = config.resolved()
    neighbors = find_neighbors(problem, config)
    reduced = reduce_classifiers(problem.weight, config.reduced)
    width = reduced.shape[1]
    config = replace(config, reduced=0 if config.reduced == 0 else width, hidden=config.hidden or width)
    composes_bias = config.bias == "composed"
    inputs = torch.from_numpy(module_inputs(reduced, neighbors.members)).to(problem.logits.dtype)
    network = CoefficientNetwork(inputs, config, torch.Generator().manual_seed(seed))
    training = CoefficientTraining(
        network=network,
        logits=problem.logits,
        scores=ComposedScores(problem.logits, neighbors.members, compose_bias=composes_bias),
        rows=_epoch_rows(problem, config, seed),
        config=config,
    )
    curve = training.run(on_epoch)
    with torch.no_grad():
        coefficients = network().double().numpy()
    record = AlphaRecord(
        config=config,
        seed=seed,
        label_names=problem.data.label_names,
        neighbors=neighbors,
        coefficients=coefficients,
        curve=curve,
    )
    composed = compose(problem.classifier, neighbors.members, coefficients, compose_bias=composes_bias)
    return AlphaResult(classifier=composed, record=record)


def _epoch_rows(problem: AlphaProblem, config: AlphaConfig, seed: int) -> EpochRows:
    is_few = np.isin(problem.data.split.labels, problem.data.few)
    return EpochRows(
        np.flatnonzero(is_few),
        np.flatnonzero(~is_few),
        config.negatives,
        redraw=config.redraw == "epoch",
        generator=np.random.default_rng(seed),
    )
