"""Tolerances: differences that parity allows between an export and its reference.

Shapes: logits and probabilities [N, C], values [N, T].
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mnexport.errors import UsageError

# Error of a float32 softmax, whatever tolerance the logits have.
_ROUNDING = 1e-6
_EXPLANATION = 1e-4
# Logits this close belong to classes that float32 does not tell apart: a share of the largest of their row, and of 10.
_TIE_SHARE = 2e-5
_RELATIVE = 1e-5


Unit = float | tuple[float, ...]
"""Standard deviation of the target of a model that estimates values: a number, or one for each of several targets."""

Answers = dict[str, npt.NDArray[Any]]
"""Outputs by name: logits and probabilities, or values. Differences of two answers have the same type."""


class Allowance(Protocol):
    """Interface of a tolerance; its text describes it."""

    def beyond(self, error: Answers, expected: Answers) -> int:
        """Count numbers that differ by more than is allowed, or are not finite."""

    def other_classes(self, answers: Answers, expected: Answers) -> int:
        """Count examples whose predicted class differs and is no tie."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Bound on every logit or value: |export − trained| ≤ atol + rtol·|trained|.

    Of logits |trained| is the largest of their row, since rounding follows the largest term of a sum. Float32 keeps
    about seven digits, so large logits differ by more than small ones. A probability may be off by ``atol`` alone, so
    that the relative part hides nothing that anyone would see.

    Two classes whose logits the trained model has within twice the tolerance, and within 2e-4 (2e-5 of the largest
    logit of the row, where that is above 10), are a tie that rounding may break either way; a looser tolerance makes no
    further ties.

    Args:
        atol: absolute; of values in units of ``unit``.
        rtol: relative; None is 1e-5 of logits, and 0 of values, whose own rounding in float32 is allowed in any case.
        unit: of values; 1 for a classifier.

    Raises:
        UsageError: one is negative or not finite, or both are 0.
    """

    atol: float = 1e-4
    rtol: float | None = None
    unit: Unit = 1.0

    def __post_init__(self) -> None:
        given = (self.atol,) if self.rtol is None else (self.atol, self.rtol)
        if not (all(math.isfinite(value) and value >= 0 for value in given) and any(given)):
            raise UsageError(
                f"Tolerances are atol {self.atol} and rtol {self.rtol}; both must be finite and not negative, and one "
                "of them above 0 (atol 1e-4 is usual)."
            )

    def beyond(self, error: Answers, expected: Answers) -> int:
        """Count numbers that differ by more, or are not finite."""
        if "value" in error:
            values = np.abs(expected["value"])
            rounding = 2 * np.spacing(values.astype(np.float32))
            allowed = self.atol * np.asarray(self.unit) + (self.rtol or 0.0) * values + rounding
            return _beyond(error, {"value": allowed}, self.unit)
        of_probabilities = (self.atol or _EXPLANATION) + _ROUNDING
        return _beyond(error, {"logits": self._of_row(expected), "probabilities": of_probabilities}, self.unit)

    def other_classes(self, answers: Answers, expected: Answers) -> int:
        """Count examples with another predicted class that is no tie; 0 for values."""
        if "value" in answers:
            return 0
        rows, logits = np.arange(len(answers["logits"])), expected["logits"].astype(np.float64)
        lead = logits.max(axis=1) - logits[rows, answers["logits"].argmax(axis=1)]
        tie = _TIE_SHARE * np.maximum(np.abs(logits).max(axis=1), 10)
        return int(np.sum(~(lead <= np.minimum(2 * self._of_row(expected)[:, 0], tie))))

    def _of_row(self, expected: Answers) -> npt.NDArray[np.float64]:
        """Difference [N, 1] that is allowed to every logit of a row."""
        rtol = _RELATIVE if self.rtol is None else self.rtol
        largest: npt.NDArray[np.float64] = np.abs(expected["logits"].astype(np.float64)).max(axis=1, keepdims=True)
        return self.atol + rtol * largest

    def __str__(self) -> str:
        return f"atol {self.atol:g}, rtol {f'{_RELATIVE:g} of logits' if self.rtol is None else f'{self.rtol:g}'}"


@dataclass(frozen=True, kw_only=True)
class Approximation:
    """Bound on every probability, or on every value in standard deviations of the target: |export − trained| ≤ limit.

    Args:
        limit: above 0 and below 1.
        unit: of values; 1 for a classifier.
    """

    limit: float
    unit: Unit = 1.0

    def beyond(self, error: Answers, expected: Answers) -> int:
        """Count probabilities or values that differ by more, or are not finite."""
        limit = self.limit + _ROUNDING
        if "value" in error:
            return _beyond(error, {"value": limit * np.asarray(self.unit)}, self.unit)
        return _beyond(error, {"probabilities": limit, "logits": np.finfo(np.float64).max}, self.unit)

    def other_classes(self, answers: Answers, expected: Answers) -> int:
        """Count examples with another predicted class, where the trained model has the two apart by twice the limit."""
        if "value" in answers:
            return 0
        rows, probabilities = np.arange(len(answers["probabilities"])), expected["probabilities"]
        chosen = probabilities[rows, answers["probabilities"].argmax(axis=1)]
        return int(np.sum(~(probabilities.max(axis=1) - chosen <= 2 * self.limit + _ROUNDING)))

    def __str__(self) -> str:
        return f"{self.limit:g} on probabilities" if self.unit == 1.0 else f"{self.limit:g} deviations of the target"


@dataclass(frozen=True, kw_only=True)
class ParityLimits:
    """Limits of the parity check.

    Args:
        tolerance: of logits, or of values.
        approximation_tolerance: largest error of a probability, or of a value in standard deviations of the target,
            that an approximated form may have.
        large_batch: rows of the largest batch that is checked.
    """

    tolerance: Tolerance
    approximation_tolerance: float
    large_batch: int


def _beyond(error: Answers, allowed: dict[str, Any], unit: Unit) -> int:
    """Count numbers beyond what is allowed; of an explanation, which no form approximates, beyond 1e-4."""
    explanation = {name: _EXPLANATION * (np.asarray(unit) if name.endswith("value") else 1) for name in error}
    limits = explanation | allowed
    # Written so that a NaN counts as a failure.
    return sum(int(np.sum(~(difference <= limits[name]))) for name, difference in error.items())
