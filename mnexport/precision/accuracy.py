"""What a lower precision costs: accuracy of the exported file beside the trained model's, on labelled examples.

Shapes: examples [N, …], classes int64 [N].
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mnexport.errors import ParityError, UsageError
from mnexport.parity.comparison import Examples, Runner, collect

DType = Literal["float32", "float16", "bfloat16", "int8"]
DTYPES: tuple[DType, ...] = ("float32", "float16", "bfloat16", "int8")


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How the backbone is computed; what adapts is always float32.

    Args:
        dtype: float32, float16, bfloat16 or int8.
        most_lost: largest drop of accuracy that may be published, as a share (0.01 is one point).

    Raises:
        UsageError: another dtype, or a drop that is not from 0 to 1.
    """

    dtype: DType = "float32"
    most_lost: float = 0.01

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"--dtype {self.dtype!r} does not exist; choose from {', '.join(DTYPES)}.")
        if not (math.isfinite(self.most_lost) and 0 <= self.most_lost <= 1):
            raise UsageError(
                f"--max-accuracy-drop is {self.most_lost:g}; it is a share of the examples from 0 to 1 (0.01 is one "
                "point)."
            )

    @property
    def lower(self) -> bool:
        """Whether answers differ from the trained model's by more than rounding."""
        return self.dtype != "float32"


@dataclass(frozen=True, kw_only=True)
class AccuracyReport:
    """Accuracy before and after.

    Args:
        dtype: of the backbone.
        engine: what computed the exported answers.
        examples: with labels.
        trained: accuracy of the trained model, in float32.
        exported: of the export.
        other_class: examples that get another class.
        max_probability_error: largest difference of a probability.
        most_lost: largest drop that may be published.
    """

    dtype: DType
    engine: str
    examples: int
    trained: float
    exported: float
    other_class: int
    max_probability_error: float
    most_lost: float

    @property
    def lost(self) -> float:
        """How much accuracy is lost; negative where it rose."""
        return self.trained - self.exported

    @property
    def finite(self) -> bool:
        """Whether every probability is a number."""
        return math.isfinite(self.max_probability_error)

    @property
    def failure(self) -> str | None:
        """What is wrong with it, in words: an answer that is not finite, or more than ``most_lost``; None is fine."""
        if not self.finite:
            return f"in {self.dtype} it has probabilities that are not finite, on {self.examples} examples"
        if self.lost <= self.most_lost:
            return None
        return (
            f"in {self.dtype} it has an accuracy of {self.exported:.2%} on {self.examples} examples, the trained model "
            f"{self.trained:.2%}; --max-accuracy-drop allows {self.most_lost:.2%}"
        )

    def raise_failure(self) -> None:
        """Raise where too much is lost.

        Raises:
            ParityError: more than ``most_lost``, or an answer is not finite.
        """
        if self.failure is None:
            return
        remedy = "a larger drop publishes it knowingly, and" if self.finite else "take another --dtype;"
        raise ParityError(
            f"The export loses too much: {self.failure}. Nothing was published; {remedy} --dtype float32 loses nothing."
        )

    def describe(self) -> str:
        """One line for the command line."""
        return (
            f"{self.dtype} ({self.engine}): accuracy {self.exported:.2%}, float32 {self.trained:.2%} on "
            f"{self.examples} examples, {self.other_class} with another class; largest difference of a probability "
            f"{self.max_probability_error:.1e}; allowed loss {self.most_lost:.2%}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``export.json``."""
        return asdict(self)


def measure_accuracy(
    precision: Precision,
    trained: Runner,
    exported: tuple[str, Runner],
    examples: tuple[Examples, npt.NDArray[np.int64]],
    batch: int,
) -> AccuracyReport:
    """Accuracy of both on the same examples.

    Args:
        precision: of the export.
        trained: the trained model.
        exported: name of the engine and its answers.
        examples: inputs and classes.
        batch: examples at a time.
    """
    inputs, targets = examples
    right, found = (collect(runner, inputs, batch)["probabilities"] for runner in (trained, exported[1]))
    classes = [item.argmax(axis=1) for item in (right, found)]
    return AccuracyReport(
        dtype=precision.dtype,
        engine=exported[0],
        examples=len(targets),
        trained=float(np.mean(classes[0] == targets)),
        exported=float(np.mean(classes[1] == targets)),
        other_class=int(np.sum(classes[0] != classes[1])),
        max_probability_error=float(np.abs(found.astype(np.float64) - right).max()),
        most_lost=precision.most_lost,
    )
