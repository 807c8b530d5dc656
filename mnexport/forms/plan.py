"""Plan of a static form: the form that is asked for, and the examples and limits that it is chosen by.

Shapes: images uint8 [N, channels, H, W], or rows float32 [N, F].
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from torch import nn

from mnexport.errors import UsageError
from mnexport.forms.low_rank.rank import RankRule

FORMS = ("auto", "explicit", "factored", "low_rank")
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """Real examples that an approximation is fitted to, and others that judge it.

    Args:
        fitted: examples that directions are fitted to.
        held_out: other examples.
        source: origin of the examples, for the report.
    """

    fitted: npt.NDArray[Any]
    held_out: npt.NDArray[Any]
    source: str

    @classmethod
    def halves(cls, examples: npt.NDArray[Any], source: str) -> "Calibration | None":
        """Fit to every second example and hold out the others; None where there are fewer than two."""
        return cls(fitted=examples[::2], held_out=examples[1::2], source=source) if len(examples) > 1 else None


@dataclass(frozen=True, kw_only=True, eq=False)
class FormPlan:
    """Static form that is asked for, and its limits.

    Args:
        form: auto, explicit, factored or low_rank.
        tolerance: largest absolute error that an approximation may have, of a probability, or of a value in standard
            deviations of the target.
        rank: directions of an approximation; None takes the fewest that keep the tolerance.
        table_limit: largest constant table of an approximation, bytes.
        explain: neighbors K whose share in an answer is told; 0 tells none.
        calibration: examples for the approximation; without them auto takes an exact form.

    Raises:
        UsageError: another form, or a tolerance or a limit that cannot be.
    """

    form: str = "auto"
    tolerance: float = 1e-3
    rank: int | None = None
    table_limit: int = 48 * _MEBIBYTE
    explain: int = 0
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError(f"Form {self.form!r} does not exist; choose from {', '.join(FORMS)}.")
        if not (math.isfinite(self.tolerance) and 0 < self.tolerance < 1):
            raise UsageError(
                f"--tolerance is {self.tolerance:g}; it is the largest error of a probability (or of a value, in "
                "standard deviations of the target), above 0 and below 1 (1e-3 is usual). Where no error is "
                "acceptable, take --form factored or --form explicit."
            )
        if self.rank is not None and self.rank < 1:
            raise UsageError(f"--rank is {self.rank}; it is a number of directions, from 1.")
        if self.rank is not None and self.form not in ("auto", "low_rank"):
            raise UsageError(f"--rank is of --form low_rank, and --form {self.form} has none; leave one out.")
        if self.table_limit < 1:
            raise UsageError(f"The table limit is {self.table_limit} bytes; it must be above 0.")

    @property
    def rank_rule(self) -> RankRule:
        """Rule that decides on the rank of an approximation."""
        return RankRule(tolerance=self.tolerance, given=self.rank)


@dataclass(frozen=True, kw_only=True)
class StaticModel:
    """A static form with its name and the record of its choice.

    Args:
        form: name of the form that was chosen.
        module: examples → outputs.
        approximate: the form differs from the trained model by more than rounding.
        record: rank, errors and costs in ``export.json``.
        cpu_module: the same form with keys in 8 bits, for CPUs, and never with an explanation; None where the form has
            none.
    """

    form: str
    module: nn.Module
    approximate: bool
    record: dict[str, Any]
    cpu_module: nn.Module | None = None
