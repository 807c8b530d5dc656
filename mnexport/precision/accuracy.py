"""Cost of a lower precision: accuracy of the exported file beside the trained model's, on labelled examples.

Shapes: examples [N, …], classes int64 [N].
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mnexport.errors import ParityError, UsageError
from mnexport.parity.examples import ParityExamples
from mnexport.parity.runners import Runner, collect

DType = Literal["float32", "float16", "bfloat16", "int8"]
DTYPES: tuple[DType, ...] = ("float32", "float16", "bfloat16", "int8")


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Precision that the backbone is computed in; adapting layers are always float32.

    Args:
        dtype: float32, float16, bfloat16 or int8.
        max_accuracy_drop: largest drop of accuracy that may be published, as a share (0.01 is one point).

    Raises:
        UsageError: another dtype, or a drop that is not from 0 to 1.
    """

    dtype: DType = "float32"
    max_accuracy_drop: float = 0.01

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"--dtype {self.dtype!r} does not exist; choose from {', '.join(DTYPES)}.")
        if not (math.isfinite(self.max_accuracy_drop) and 0 <= self.max_accuracy_drop <= 1):
            raise UsageError(
                f"--max-accuracy-drop is {self.max_accuracy_drop:g}; it is a share of the examples from 0 to 1 (0.01 "
                "is one point)."
            )

    @property
    def lower(self) -> bool:
        """Tell if answers differ from the trained model's by more than rounding."""
        return self.dtype != "float32"


@dataclass(frozen=True, kw_only=True)
class AccuracyReport:
    """Accuracy before and after lowering.

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
        """Loss of accuracy; negative where it rose."""
        return self.trained - self.exported

    @property
    def finite(self) -> bool:
        """Tell if every probability is a number."""
        return math.isfinite(self.max_probability_error)

    @property
    def failure(self) -> str | None:
        """Describe an answer that is not finite, or a loss above ``most_lost``; None where neither is the case."""
        if not self.finite:
            return f"in {self.dtype} it has probabilities that are not finite, on {self.examples} examples"
        if self.lost <= self.most_lost:
            return None
        return (
            f"in {self.dtype} it has an accuracy of {self.exported:.2%} on {self.examples} examples, the trained model "
            f"{self.trained:.2%}; --max-accuracy-drop allows {self.most_lost:.2%}"
        )

    def raise_failure(self) -> None:
        """Raise an error where too much is lost.

        Raises:
            ParityError: the loss is above ``most_lost``, or an answer is not finite.
        """
        if self.failure is None:
            return
        remedy = "a larger drop publishes it knowingly, and" if self.finite else "take another --dtype;"
        raise ParityError(
            f"The export loses too much: {self.failure}. Nothing was published; {remedy} --dtype float32 loses nothing."
        )

    def describe(self) -> str:
        """Return one line for the command line."""
        return (
            f"{self.dtype} ({self.engine}): accuracy {self.exported:.2%}, float32 {self.trained:.2%} on "
            f"{self.examples} examples, {self.other_class} with another class; largest difference of a probability "
            f"{self.max_probability_error:.1e}; allowed loss {self.most_lost:.2%}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return asdict(self)


Measure = Callable[[str, Runner], AccuracyReport]
"""Name of an engine and its answers → the accuracy of these answers."""


def accuracy_measure(precision: Precision, trained: Runner, examples: ParityExamples, batch: int) -> Measure:
    """Make a function that measures accuracy beside that of the trained model.

    Args:
        precision: of the export.
        trained: the trained model.
        examples: with classes as targets.
        batch: examples at a time.
    """
    inputs, targets = examples.examples.inputs, examples.examples.targets.astype(np.int64)

    def measure(engine: str, exported: Runner) -> AccuracyReport:
        expected, answers = (collect(runner, inputs, batch)["probabilities"] for runner in (trained, exported))
        expected_classes, classes = expected.argmax(axis=1), answers.argmax(axis=1)
        return AccuracyReport(
            dtype=precision.dtype,
            engine=engine,
            examples=len(targets),
            trained=float(np.mean(expected_classes == targets)),
            exported=float(np.mean(classes == targets)),
            other_class=int(np.sum(expected_classes != classes)),
            max_probability_error=float(np.abs(answers.astype(np.float64) - expected).max()),
            most_lost=precision.max_accuracy_drop,
        )

    return measure
