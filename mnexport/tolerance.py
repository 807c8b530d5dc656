"""How far an export may be from what it must equal.

Shapes: logits and probabilities [N, C].
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mnexport.errors import UsageError

# Of a float32 softmax, whatever tolerance the logits have.
_ROUNDING = 1e-6


class Outputs(NamedTuple):
    """What a model answers, or how far two answers are apart."""

    logits: npt.NDArray[Any]
    probabilities: npt.NDArray[Any]


class Allowance(Protocol):
    """What parity asks of a tolerance; its text says what it is."""

    def beyond(self, error: Outputs, expected: Outputs) -> int:
        """Values that differ by more than is allowed, or are not finite."""

    def other_classes(self, got: Outputs, expected: Outputs) -> int:
        """Images that get a class they must not get."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """|export − trained| ≤ atol + rtol·|trained| on every logit.

    A probability may be off by as much as the logits of its row: softmax amplifies no difference.

    Args:
        atol: absolute.
        rtol: relative; 0 by default, so that nothing is hidden in it.

    Raises:
        UsageError: one is negative or not finite, or both are 0.
    """

    atol: float = 1e-4
    rtol: float = 0.0

    def __post_init__(self) -> None:
        given = (self.atol, self.rtol)
        if not (all(math.isfinite(value) and value >= 0 for value in given) and any(given)):
            raise UsageError(
                f"Tolerances are atol {self.atol} and rtol {self.rtol}; both must be finite and not negative, and one "
                "of them above 0 (atol 1e-4 is usual)."
            )

    def beyond(self, error: Outputs, expected: Outputs) -> int:
        """Logits and probabilities that differ by more, or are not finite."""
        allowed = self.atol + self.rtol * np.abs(expected.logits)
        allowed_probability = allowed.max(axis=1, keepdims=True) + _ROUNDING
        # Written so that a NaN counts as a failure.
        return int(np.sum(~(error.logits <= allowed)) + np.sum(~(error.probabilities <= allowed_probability)))

    def other_classes(self, got: Outputs, expected: Outputs) -> int:
        """Images with another predicted class."""
        return int(np.sum(got.logits.argmax(axis=1) != expected.logits.argmax(axis=1)))

    def __str__(self) -> str:
        return f"atol {self.atol:g}, rtol {self.rtol:g}"


@dataclass(frozen=True, kw_only=True)
class ProbabilityTolerance:
    """|export − trained| ≤ limit on every probability, for a form that approximates.

    Args:
        limit: above 0 and below 1.
    """

    limit: float

    def beyond(self, error: Outputs, expected: Outputs) -> int:
        """Probabilities that differ by more, or are not finite."""
        return int(np.sum(~(error.probabilities <= self.limit + _ROUNDING)))

    def other_classes(self, got: Outputs, expected: Outputs) -> int:
        """Images with another predicted class, though the trained model tells the two apart by more than the limit."""
        rows = np.arange(len(got.logits))
        chosen = expected.probabilities[rows, got.probabilities.argmax(axis=1)]
        return int(np.sum(~(expected.probabilities.max(axis=1) - chosen <= 2 * self.limit + _ROUNDING)))

    def __str__(self) -> str:
        return f"{self.limit:g} on probabilities"
