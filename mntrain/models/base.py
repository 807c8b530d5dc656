"""What every model family offers to the training loop, the evaluator and the exporter.

Shapes: B batch, C classes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss


class Prediction(NamedTuple):
    """What a model says about a batch.

    Args:
        logits: [B, C], after adaptation where the family adapts.
        unadapted_logits: [B, C] of the same model before adaptation; None where the family does not adapt.
    """

    logits: Tensor
    unadapted_logits: Tensor | None = None


class Estimate(NamedTuple):
    """What a model estimates for a batch, in the units of the standardised targets.

    Args:
        values: [B], after adaptation where the family adapts.
        unadapted_values: [B] of the same model before adaptation; None where the family does not adapt.
    """

    values: Tensor
    unadapted_values: Tensor | None = None


class Batch(NamedTuple):
    """Preprocessed inputs, such as float images [B, channels, H, W], and targets [B], such as int64 labels."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters that share optimiser settings.

    Args:
        name: how the group is called in logs.
        parameters: the parameters themselves.
        decay: whether weight decay acts on them.
        rate: factor on the learning rate.
    """

    name: str
    parameters: tuple[nn.Parameter, ...]
    decay: bool
    rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One pass over the training data, of those that make an epoch.

    Args:
        loss: name of the model's method that gives the loss of a batch.
        groups: names of the parameter groups that it updates.
    """

    loss: str
    groups: tuple[str, ...]


class Model(nn.Module, ABC):
    """What the loop can train and the exporter can freeze."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> NamedTuple:
        """Preprocessed inputs [B, …] → what the model says about them."""

    @abstractmethod
    def loss(self, batch: Batch) -> tuple[Tensor, NamedTuple]:
        """The loss [] to lower, and the prediction itself."""

    @property
    @abstractmethod
    def compiled_part(self) -> nn.Module:
        """The part that most of the time goes into, without anything that is adapted: what torch.compile is given."""

    def passes(self) -> tuple[Pass, ...]:
        """What an epoch consists of: one pass that updates everything by :meth:`loss`."""
        return (Pass(loss="loss", groups=tuple(group.name for group in self.parameter_groups())),)

    @abstractmethod
    def parameter_groups(self) -> list[ParameterGroup]:
        """Every parameter exactly once, in groups for the optimiser."""


class Classifier(Model):
    """A model that tells classes apart."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> Prediction:
        """Preprocessed inputs [B, …] → logits [B, C]."""

    def loss(self, batch: Batch) -> tuple[Tensor, Prediction]:
        """Mean cross-entropy [] of the (adapted) prediction, and the prediction itself."""
        prediction: Prediction = self(batch.inputs)
        return cross_entropy(prediction.logits, batch.targets), prediction


class Regressor(Model):
    """A model that estimates one value."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> Estimate:
        """Preprocessed inputs [B, …] → values [B]."""

    def loss(self, batch: Batch) -> tuple[Tensor, Estimate]:
        """Mean squared error [] of the (adapted) values, and the values themselves."""
        estimate: Estimate = self(batch.inputs)
        return mse_loss(estimate.values, batch.targets), estimate
