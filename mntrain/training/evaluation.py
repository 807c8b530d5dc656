"""Evaluation of a model on a set of examples, and metrics: the one place of the loop that knows classes from values.

Shapes: B batch, N examples, T targets that are values. Scores and losses [B].
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mntrain.data.examples import Examples
from mntrain.errors import ArtifactError
from mntrain.models.base import Estimate, Prediction

if TYPE_CHECKING:
    from torchmetrics import MeanMetric


class TargetScores(NamedTuple):
    """Scores of every answer for each of several targets.

    Args:
        scores: [B, T].
        unadapted_scores: [B, T] before adaptation; None where the family does not adapt.
    """

    scores: Tensor
    unadapted_scores: Tensor | None


class Detail(NamedTuple):
    """A further score of some of the answers of a batch.

    Args:
        scores: [B].
        weights: [B], 1.0 for answers that count and 0.0 for the others.
    """

    scores: Tensor
    weights: Tensor


class Metric(ABC):
    """A score and a loss for every example; their means are what is reported."""

    name: str
    better: Literal["higher", "lower"]
    percent: bool

    @abstractmethod
    def score(self, prediction: Any, targets: Tensor) -> Tensor:
        """The score of every answer [B]."""

    @abstractmethod
    def unadapted_score(self, prediction: Any, targets: Tensor) -> Tensor | None:
        """The score of every answer before adaptation [B]; None where the family does not adapt."""

    @abstractmethod
    def loss(self, prediction: Any, targets: Tensor) -> Tensor:
        """The loss of every answer [B]."""

    def scores_by_target(self, prediction: Any, targets: Tensor) -> TargetScores | None:
        """The scores of every answer for each of several targets; None where there is one."""
        return None

    def details(self, prediction: Any, targets: Tensor) -> Mapping[str, Detail]:
        """Further scores by name, whose means are reported beside the score; of every batch the same ones."""
        return {}

    def text(self, value: float | None, *, sign: bool = False) -> str:
        """Format a mean score, or with ``sign`` a difference of two, for people; empty for None.

        Shares are in per cent, errors with four digits behind the point, as in the papers' tables.
        """
        if value is None:
            return ""
        return f"{value:{'+' if sign else ''}{'.2%' if self.percent else '.4f'}}"

    def describe(self, figures: Mapping[str, Any]) -> str:
        """Put a split's score into words, with the score before adaptation.

        Args:
            figures: of the split, as ``metrics.json`` holds them.
        """
        unadapted = figures.get(f"unadapted_{self.name}")
        rest = "" if unadapted is None else f" ({self.text(unadapted)} before adaptation)"
        return f"{self.name} {self.text(figures[self.name])}{rest}"

    def rank_of(self, row: Mapping[str, float]) -> tuple[float, float]:
        """Rank an epoch by its validation score, the better the larger; the loss decides between equal scores.

        Args:
            row: of ``metrics.csv``.
        """
        score = row[f"validation_{self.name}"]
        return (score if self.better == "higher" else -score), -row["validation_loss"]


class Accuracy(Metric):
    """Accuracy: 1 for a right answer, 0 for a wrong one. The loss is the cross-entropy in nats."""

    name = "accuracy"
    better = "higher"
    percent = True

    def score(self, prediction: Prediction, targets: Tensor) -> Tensor:
        """1.0 or 0.0 for every answer [B]."""
        return (prediction.logits.argmax(dim=-1) == targets).float()

    def unadapted_score(self, prediction: Prediction, targets: Tensor) -> Tensor | None:
        """1.0 or 0.0 for every answer before adaptation [B]."""
        if prediction.unadapted_logits is None:
            return None
        return (prediction.unadapted_logits.argmax(dim=-1) == targets).float()

    def loss(self, prediction: Prediction, targets: Tensor) -> Tensor:
        """Cross-entropy [B]."""
        return cross_entropy(prediction.logits, targets, reduction="none")


class MeanSquaredError(Metric):
    """The squared error of standardised values, which is the loss too: of several targets their mean."""

    name = "mse"
    better = "lower"
    percent = False

    def score(self, prediction: Estimate, targets: Tensor) -> Tensor:
        """Squared error of every answer [B]."""
        return self.loss(prediction, targets).detach()

    def unadapted_score(self, prediction: Estimate, targets: Tensor) -> Tensor | None:
        """Squared error of every answer before adaptation [B]."""
        if prediction.unadapted_values is None:
            return None
        return _of_rows((prediction.unadapted_values - targets).square()).detach()

    def loss(self, prediction: Estimate, targets: Tensor) -> Tensor:
        """Squared error of every answer [B], with its gradient."""
        return _of_rows((prediction.values - targets).square())

    def scores_by_target(self, prediction: Estimate, targets: Tensor) -> TargetScores | None:
        """Squared errors [B, T] of several targets."""
        if targets.dim() == 1:
            return None
        before = prediction.unadapted_values
        return TargetScores(
            scores=(prediction.values - targets).square().detach(),
            unadapted_scores=None if before is None else (before - targets).square().detach(),
        )


def _of_rows(errors: Tensor) -> Tensor:
    """Squared errors [B], or [B, T] of several targets → [B]."""
    return errors if errors.dim() == 1 else errors.mean(dim=-1)


ACCURACY = Accuracy()
MSE = MeanSquaredError()
METRICS: dict[str, Metric] = {metric.name: metric for metric in (ACCURACY, MSE)}


def metric_of(figures: Mapping[str, Any], run: str) -> Metric:
    """Find the metric that a run reports.

    Args:
        figures: of a split, as ``metrics.json`` holds them.
        run: name of the run, for the message.

    Raises:
        ArtifactError: the figures name no known metric.
    """
    for metric in METRICS.values():
        if isinstance(figures.get(metric.name), (int, float)):
            return metric
    raise ArtifactError(
        f"Run {run} reports {', '.join(sorted(figures)) or 'nothing'} on the test split, expected "
        f"{' or '.join(METRICS)} in its metrics.json; train the run again."
    )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of an evaluation.

    Args:
        examples: number of examples.
        metric: name of the score, for instance accuracy.
        score: mean score.
        loss: mean loss.
        unadapted_score: mean score before adaptation; None where the family does not adapt.
        target_scores: mean score of each of several targets; empty for one.
        unadapted_target_scores: the same before adaptation; empty for one, or where the family does not adapt.
        corrected: answers that are right only after adaptation; None for values, or where the family does not adapt.
        broken: answers that are right only before adaptation; None likewise.
        details: name → mean of each further score that any example counts for.
    """

    examples: int
    metric: str
    score: float
    loss: float
    unadapted_score: float | None = None
    target_scores: tuple[float, ...] = ()
    unadapted_target_scores: tuple[float, ...] = ()
    corrected: int | None = None
    broken: int | None = None
    details: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the scores under the name of the metric; counts of answers only where there are any."""
        return {
            "examples": self.examples,
            self.metric: self.score,
            "loss": self.loss,
            f"unadapted_{self.metric}": self.unadapted_score,
            **({} if self.corrected is None else {"corrected": self.corrected, "broken": self.broken}),
            **self.details,
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
        observe: called with the prediction of each batch.
    """

    metric: Metric
    batch_size: int
    shard: Shard = Shard()
    advance: Callable[[int], None] = lambda examples: None
    observe: Callable[[Any], None] = lambda prediction: None


@torch.inference_mode()
def evaluate(model: nn.Module, preprocessing: nn.Module, examples: Examples, plan: EvaluationPlan) -> Evaluation:
    """Evaluate a model on a set in eval mode; the mode is restored.

    Args:
        model: preprocessed inputs → prediction, of the kind that the metric takes.
        preprocessing: stored inputs → inputs of the model; its device is that of the evaluation.
        examples: the set.
        plan: metric, batches and shard.
    """
    from torchmetrics import MeanMetric, SumMetric  # a second, which programs that evaluate nothing need not wait

    device = next(preprocessing.buffers()).device
    part = slice(plan.shard.rank, None, plan.shard.world_size)
    inputs, targets = torch.from_numpy(examples.inputs[part]), torch.from_numpy(examples.targets[part])
    score, loss, unadapted = (MeanMetric().to(device) for _ in range(3))
    corrected, broken = (SumMetric().to(device) for _ in range(2))
    several = targets.shape[1] if targets.dim() == 2 else 0
    of_targets, unadapted_of_targets = ([MeanMetric().to(device) for _ in range(several)] for _ in range(2))
    details: dict[str, MeanMetric] = {}
    adapts = False
    was_training = model.training
    model.eval()
    try:
        for start in range(0, len(targets), plan.batch_size):
            chunk = slice(start, start + plan.batch_size)
            target = targets[chunk].to(device)
            prediction = model(preprocessing(inputs[chunk].to(device)))
            plan.observe(prediction)
            scores = plan.metric.score(prediction, target)
            score.update(scores)
            loss.update(plan.metric.loss(prediction, target))
            unadapted_score = plan.metric.unadapted_score(prediction, target)
            if unadapted_score is not None:
                adapts = True
                unadapted.update(unadapted_score)
                corrected.update(scores > unadapted_score)
                broken.update(scores < unadapted_score)
            by_target = plan.metric.scores_by_target(prediction, target)
            if by_target is not None:
                _update(of_targets, by_target.scores)
                _update(unadapted_of_targets, by_target.unadapted_scores)
            for name, detail in plan.metric.details(prediction, target).items():
                details.setdefault(name, MeanMetric().to(device)).update(detail.scores, detail.weights)
            plan.advance(len(target))
    finally:
        model.train(was_training)
    return Evaluation(
        examples=len(examples),
        metric=plan.metric.name,
        score=float(score.compute()),
        loss=float(loss.compute()),
        unadapted_score=float(unadapted.compute()) if adapts else None,
        target_scores=tuple(float(mean.compute()) for mean in of_targets),
        unadapted_target_scores=tuple(float(mean.compute()) for mean in unadapted_of_targets if adapts),
        corrected=int(corrected.compute()) if adapts and plan.metric.percent else None,
        broken=int(broken.compute()) if adapts and plan.metric.percent else None,
        # Of no example the mean is not a number.
        details={name: value for name, mean in details.items() if math.isfinite(value := float(mean.compute()))},
    )


def _update(means: "list[MeanMetric]", scores: Tensor | None) -> None:
    """Add scores [B, T] to the mean of each target."""
    if scores is not None:
        for mean, of_target in zip(means, scores.unbind(-1), strict=True):
            mean.update(of_target)
