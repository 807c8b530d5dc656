"""Interface of every model family to the training loop, the evaluator and the exporter.

Shapes: B batch, C classes, T targets that are values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from mntrain.layers.frozen import rest


class Prediction(NamedTuple):
    """Answer of a classifier to a batch.

    Args:
        logits: [B, C], after adaptation where the family adapts.
        unadapted_logits: [B, C] of the same model before adaptation; None where the family does not adapt.
    """

    logits: Tensor
    unadapted_logits: Tensor | None = None


class Estimate(NamedTuple):
    """Answer of a regressor to a batch, in the units of the standardised targets.

    Args:
        values: [B] of one target, [B, T] of several; after adaptation where the family adapts.
        unadapted_values: as ``values``, of the same model before adaptation; None where the family does not adapt.
    """

    values: Tensor
    unadapted_values: Tensor | None = None


class Batch(NamedTuple):
    """Preprocessed inputs, such as float images [B, channels, H, W], and targets: int64 labels [B], or float32 values
    [B] of one target and [B, T] of several.
    """

    inputs: Tensor
    targets: Tensor


TargetRanges = Sequence[tuple[float, float]]
"""Lowest and highest standardised training value of each of T targets."""

LossAndPrediction = tuple[Tensor, NamedTuple]
"""Loss [] of a batch and the prediction it was computed from."""

Objective = Callable[[Batch], LossAndPrediction]
"""Loss that a model is trained by: a bound method of the model, such as :meth:`Model.loss`."""


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters that share optimiser settings.

    Args:
        name: in logs, checkpoints and training phases.
        parameters: the parameters themselves.
        decay: whether weight decay acts on them.
        rate: factor on the learning rate.
        distance: how far the parameters have to be able to go in a run. The factor is then found from the length of the
            run, and ``rate`` does not count.
        estimated: the gradient is a straight-through estimate; the true derivative is 0 or does not exist.
    """

    name: str
    parameters: tuple[nn.Parameter, ...]
    decay: bool
    rate: float = 1.0
    distance: float | None = None
    estimated: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainingPhase:
    """A pass over the training data that lowers one objective; an epoch consists of one phase or more.

    Args:
        objective: loss of a batch.
        groups: names of the parameter groups that are updated.
        trains_prediction: whether loss and score of this phase are the training figures of the epoch.
    """

    objective: Objective
    groups: tuple[str, ...]
    trains_prediction: bool = True


class HasPenalty(Protocol):
    """A layer that adds a term to the loss, whatever the objective."""

    def penalty(self) -> Tensor | None:
        """Compute the term []; None where its factor is 0."""


def _has_penalty(layer: object) -> TypeGuard[HasPenalty]:
    """Tell by the class: every step of training asks every layer, and a runtime protocol takes many times as long."""
    return hasattr(type(layer), "penalty")


class Model(nn.Module, ABC):
    """A network that the loop can train and the exporter can freeze."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> NamedTuple:
        """Preprocessed inputs [B, …] → prediction."""

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation; frozen layers stay in evaluation."""
        super().train(mode)
        rest(self)
        return self

    @abstractmethod
    def loss(self, batch: Batch) -> LossAndPrediction:
        """Compute the loss [] to lower, and the prediction itself."""

    @property
    @abstractmethod
    def compiled_part(self) -> nn.Module:
        """Part for torch.compile: it takes most of the time and holds nothing that is adapted."""

    @abstractmethod
    def plain(self) -> "Model":
        """Same network without adaptation; it shares its modules with this one, iFiLM included."""

    @abstractmethod
    def parameter_groups(self) -> list[ParameterGroup]:
        """List every parameter that is not frozen exactly once, in groups for the optimiser."""

    def training_phases(self) -> tuple[TrainingPhase, ...]:
        """List the phases of an epoch: by default one that updates everything by :meth:`loss`.

        Exactly one phase trains the prediction.
        """
        return (TrainingPhase(objective=self.loss, groups=tuple(group.name for group in self.parameter_groups())),)

    def seed_draws(self, seed: int) -> None:
        """Seed what this family alone draws while training; by default it draws nothing that others do not.

        Augmentation and dropout of a backbone come from PyTorch's global generators. A family that took further numbers
        from them would train on other images than the families it is compared with.
        """

    def evaluate_objective(self, objective: Objective, batch: Batch) -> LossAndPrediction:
        """Evaluate the objective of one of this model's phases on a batch, with the penalty of its layers.

        A data-parallel wrapper needs one method to send every objective through (Fabric's ``mark_forward_method``).
        """
        loss, prediction = objective(batch)
        penalty = self.penalty()
        return loss if penalty is None else loss + penalty, prediction

    def penalty(self) -> Tensor | None:
        """Sum the penalties [] of layers that have one; None where none has."""
        layers = [layer for layer in self.modules() if layer is not self and _has_penalty(layer)]
        terms = [term for layer in layers if (term := layer.penalty()) is not None]
        return torch.stack(terms).sum() if terms else None


class Classifier(Model):
    """A model that tells classes apart."""

    class_weights: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        # Of the loss alone: no part of an answer, and so of no file.
        self.register_buffer("class_weights", None, persistent=False)

    def weigh_classes(self, weights: Tensor) -> None:
        """Weigh every example's cost in the loss by ``weights`` [C] of its class.

        Raises:
            ConfigError: the family has a loss of its own, on which such weights do not act.
        """
        self.class_weights = weights

    def cross_entropy(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy [] of logits [B, C], weighted by class where weights are given.

        The sum of weighted costs is divided by B and not by the sum of the weights, so that the parts of a batch add up
        to the loss of the whole.
        """
        if self.class_weights is None:
            return cross_entropy(logits, targets)
        return (self.class_weights[targets] * cross_entropy(logits, targets, reduction="none")).mean()

    @abstractmethod
    def forward(self, inputs: Tensor) -> Prediction:
        """Preprocessed inputs [B, …] → logits [B, C]."""

    def loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Compute the mean cross-entropy [] of the (adapted) prediction, and the prediction itself."""
        prediction: Prediction = self(batch.inputs)
        return self.cross_entropy(prediction.logits, batch.targets), prediction


class Regressor(Model):
    """A model that estimates values: one, or several at once."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> Estimate:
        """Preprocessed inputs [B, …] → values [B] of one target, [B, T] of several."""

    def loss(self, batch: Batch) -> tuple[Tensor, Estimate]:
        """Compute the mean squared error [] of the (adapted) values, over targets too, and the values themselves."""
        estimate: Estimate = self(batch.inputs)
        return mse_loss(estimate.values, batch.targets), estimate
