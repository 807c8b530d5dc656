"""Score and loss of a model on a set of examples.

Shapes: B batch, N examples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torchmetrics import MeanMetric

from mntrain.data.examples import Examples
from mntrain.training.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of an evaluation.

    Args:
        examples: number of examples.
        metric: name of the score, for instance accuracy.
        score: mean score.
        loss: mean loss.
        unadapted_score: mean score before adaptation; None where the family does not adapt.
    """

    examples: int
    metric: str
    score: float
    loss: float
    unadapted_score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, the scores under the name of the metric."""
        return {
            "examples": self.examples,
            self.metric: self.score,
            "loss": self.loss,
            f"unadapted_{self.metric}": self.unadapted_score,
        }


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The part of a set that this process evaluates: every ``world_size``-th example from ``rank`` on."""

    rank: int = 0
    world_size: int = 1


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """Options of an evaluation.

    Args:
        metric: score and loss of an answer.
        batch_size: examples at a time.
        shard: part of this process, where several processes evaluate one set; every process passes the whole set.
        advance: called with the number of examples after each batch.
    """

    metric: Metric
    batch_size: int
    shard: Shard = Shard()
    advance: Callable[[int], None] = lambda examples: None


@torch.inference_mode()
def evaluate(model: nn.Module, preprocessing: nn.Module, examples: Examples, plan: EvaluationPlan) -> Evaluation:
    """Evaluate a model on a set in eval mode; the mode is restored.

    Args:
        model: preprocessed inputs → prediction, of the kind that the metric takes.
        preprocessing: stored inputs → inputs of the model; its device is that of the evaluation.
        examples: the set.
        plan: metric, batches and shard.
    """
    device = next(preprocessing.buffers()).device
    part = slice(plan.shard.rank, None, plan.shard.world_size)
    inputs, targets = torch.from_numpy(examples.inputs[part]), torch.from_numpy(examples.targets[part])
    score, loss, unadapted = (MeanMetric().to(device) for _ in range(3))
    adapts = False
    was_training = model.training
    model.eval()
    try:
        for start in range(0, len(targets), plan.batch_size):
            chunk = slice(start, start + plan.batch_size)
            target = targets[chunk].to(device)
            prediction = model(preprocessing(inputs[chunk].to(device)))
            score.update(plan.metric.score(prediction, target))
            loss.update(plan.metric.loss(prediction, target))
            unadapted_score = plan.metric.unadapted_score(prediction, target)
            if unadapted_score is not None:
                adapts = True
                unadapted.update(unadapted_score)
            plan.advance(len(target))
    finally:
        model.train(was_training)
    return Evaluation(
        examples=len(examples),
        metric=plan.metric.name,
        score=float(score.compute()),
        loss=float(loss.compute()),
        unadapted_score=float(unadapted.compute()) if adapts else None,
    )
