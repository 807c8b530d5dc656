"""How an answer is judged: the one place of the loop that knows classification from regression.

Shapes: B batch. Scores and losses [B].
"""

from abc import ABC, abstractmethod
from typing import Any, Literal

from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from mntrain.models.base import Estimate, Prediction


class Metric(ABC):
    """A score and a loss for every example; their means are what is reported."""

    name: str
    better: Literal["higher", "lower"]

    @abstractmethod
    def score(self, prediction: Any, targets: Tensor) -> Tensor:
        """The score of every answer [B]."""

    @abstractmethod
    def unadapted_score(self, prediction: Any, targets: Tensor) -> Tensor | None:
        """The same before adaptation [B]; None where the family does not adapt."""

    @abstractmethod
    def loss(self, prediction: Any, targets: Tensor) -> Tensor:
        """The loss of every answer [B]."""

    @abstractmethod
    def text(self, value: float) -> str:
        """A mean score as a person reads it."""

    def rank(self, score: float, loss: float) -> tuple[float, float]:
        """Sorts results: the better the larger; the loss decides between equal scores."""
        return (score if self.better == "higher" else -score), -loss


class Accuracy(Metric):
    """1 for a right answer, 0 for a wrong one; cross-entropy in nats."""

    name = "accuracy"
    better = "higher"

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

    def text(self, value: float) -> str:
        """In per cent."""
        return f"{value:.2%}"


class MeanSquaredError(Metric):
    """Squared error on standardised targets, both score and loss."""

    name = "mse"
    better = "lower"

    def score(self, prediction: Estimate, targets: Tensor) -> Tensor:
        """Squared error of every answer [B]."""
        return mse_loss(prediction.values, targets, reduction="none")

    def unadapted_score(self, prediction: Estimate, targets: Tensor) -> Tensor | None:
        """Squared error of every answer before adaptation [B]."""
        if prediction.unadapted_values is None:
            return None
        return mse_loss(prediction.unadapted_values, targets, reduction="none")

    def loss(self, prediction: Estimate, targets: Tensor) -> Tensor:
        """Squared error of every answer [B]."""
        return self.score(prediction, targets)

    def text(self, value: float) -> str:
        """With four decimals, or four figures where it is small."""
        return f"{value:.4f}" if value == 0 or value >= 0.01 else f"{value:.3e}"


ACCURACY = Accuracy()
MSE = MeanSquaredError()
