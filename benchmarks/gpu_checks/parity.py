"""Parity of the answers of a GPU with those of the CPU.

Shapes: inputs [N, ...]; logits and probabilities [N, C] or values [N, T].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from mnexport.parity.tolerance import Approximation

Answers = dict[str, np.ndarray]
Run = Callable[[np.ndarray], Answers]
"""Inputs [B, ...] -> outputs by name, arrays [B, ...]."""

LIMITS = {"float32": 1e-4, "float16": 2e-2}
"""Largest error of a probability, or of a value in standard deviations of the target, TF32 switched off."""
# In turn, so that every graph is replayed between others, with and without padding; the last is beyond all graphs.
_SIZES = (1, 8, 3, 1, 32, 20, 8, 130)


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Parity of one engine with the CPU's float32 answers.

    Args:
        model: name of the model.
        dtype: dtype of the backbone.
        engine: name of the engine.
        rows: number of compared rows.
        largest: largest absolute error of each output.
        limit: limit of the error of a probability or value.
        beyond: number of values with a larger error, or that are not finite.
        other_classes: number of rows with another class, though the CPU's answer leaves no doubt.
    """

    model: str
    dtype: str
    engine: str
    rows: int
    largest: Mapping[str, float]
    limit: float
    beyond: int
    other_classes: int

    @property
    def passed(self) -> bool:
        """True if nothing differs by more than the limit."""
        return self.beyond == 0 and self.other_classes == 0


def answers(run: Run, inputs: np.ndarray) -> Answers:
    """Run all inputs in batches of many sizes."""
    parts, start = [], 0
    for size in cycle(_SIZES):
        if start >= len(inputs):
            break
        parts.append(run(inputs[start : start + size]))
        start += size
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def compare(what: tuple[str, str, str], got: Answers, right: Answers, unit: float | tuple[float, ...]) -> Parity:
    """Compare the answers of an engine with those of the CPU.

    Args:
        what: model, dtype, engine.
        got: answers of the engine.
        right: answers of the CPU in float32.
        unit: standard deviation of the target of a regressor, or of each of several; else 1.
    """
    model, dtype, engine = what
    allowed = Approximation(limit=LIMITS[dtype], unit=unit)
    error = {name: np.abs(got[name].astype(np.float64) - right[name]) for name in right}
    return Parity(
        model=model,
        dtype=dtype,
        engine=engine,
        rows=len(next(iter(right.values()))),
        largest={name: float(values.max()) for name, values in error.items()},
        limit=LIMITS[dtype] * float(np.max(unit)),
        beyond=allowed.beyond(error, right),
        other_classes=allowed.other_classes(got, right),
    )
