"""Results of the parity check: one comparison for each runner and batch size, and all of them together."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from mnexport.errors import ParityError


@dataclass(frozen=True, kw_only=True)
class BatchComparison:
    """Differences between an export and its reference at one batch size.

    Args:
        what: static form or onnxruntime.
        reference: what it was compared with: the trained model, or the static form where that is an approximation.
        tolerance: how far they may be apart.
        batch: rows at a time.
        examples: compared.
        max_error: largest absolute difference of each output.
        argmax_differences: examples with another predicted class than is allowed.
        beyond_tolerance: values that differ by more than the tolerance, or are not finite.
    """

    what: str
    reference: str
    tolerance: str
    batch: int
    examples: int
    max_error: dict[str, float]
    argmax_differences: int
    beyond_tolerance: int

    @property
    def passed(self) -> bool:
        """Tell if the export may be published as far as this comparison goes."""
        return self.beyond_tolerance == 0 and self.argmax_differences == 0

    @property
    def failure(self) -> str:
        """Describe the differences in words."""
        errors = ", ".join(
            f"{name} {value:.3g}" if math.isfinite(value) else f"{name} not finite"
            for name, value in self.max_error.items()
        )
        return (
            f"{self.what} at batch {self.batch}: {self.beyond_tolerance} values beyond {self.tolerance} of the "
            f"{self.reference} (largest errors: {errors}), {self.argmax_differences} of {self.examples} examples with "
            "another class"
        )


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """All comparisons of an export.

    Args:
        source: examples that were used, in words.
        comparisons: one for each runner and batch size.
    """

    source: str
    comparisons: tuple[BatchComparison, ...]

    @property
    def failed(self) -> tuple[BatchComparison, ...]:
        """Comparisons beyond their tolerance."""
        return tuple(item for item in self.comparisons if not item.passed)

    @property
    def passed(self) -> bool:
        """Tell if every comparison is within its tolerance."""
        return not self.failed

    def raise_failures(self) -> None:
        """Raise one error that names every failed comparison.

        Raises:
            ParityError: a comparison failed.
        """
        if self.failed:
            lines = "; ".join(item.failure for item in self.failed)
            finite = all(math.isfinite(value) for item in self.failed for value in item.max_error.values())
            remedy = (
                "a looser --atol (or --tolerance, for a form that approximates) publishes it knowingly"
                if finite
                else "no tolerance allows answers that are not finite: take another --form, or train again"
            )
            raise ParityError(
                f"The export does not answer as the trained model does: {lines}. Nothing was published; {remedy}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``export.json``."""
        return {
            "source": self.source,
            "comparisons": [asdict(item) for item in self.comparisons],
        }
