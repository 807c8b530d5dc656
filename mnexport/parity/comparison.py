"""Comparison of runners with their references on real held-out examples.

Shapes: images uint8 [N, channels, H, W] or rows float32 [N, F]; logits and probabilities [N, C] or values [N, T].

Small batches find graphs that are right for one batch size alone. Every failure is collected before anything is raised.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnexport.parity.checks import ParityCheck
from mnexport.parity.report import BatchComparison, ParityReport
from mnexport.parity.runners import ATTENTION, Examples, Runner, collect
from mnexport.parity.tolerance import Answers
from mnexport.progress import OnProgress, no_progress

# Outputs that follow from the choice of entries; where weights are equal, either entry may be named.
_OF_NEIGHBORS = frozenset({"neighbor_indices", "neighbor_labels", "neighbor_values"})
# Small batches are checked on this many examples; the large batch runs over all of them.
_SMALL_BATCH_EXAMPLES = 64


def compare(
    checks: Sequence[ParityCheck],
    examples: Examples,
    *,
    large_batch: int,
    source: str,
    on_progress: OnProgress = no_progress,
) -> ParityReport:
    """Run every check over the examples at batch 1, 2 and a large one.

    Args:
        checks: what must equal what.
        examples: [N, …], real and held out.
        large_batch: rows of the large batch, which runs over all examples.
        source: what the examples are, for the report.
        on_progress: gets a line before each comparison.
    """
    references: dict[Runner, Answers] = {}
    comparisons = []
    for check in checks:
        if check.expected not in references:
            references[check.expected] = collect(check.expected, examples, large_batch)
        expected = references[check.expected]
        for batch in sorted({1, 2, large_batch}):
            part = examples if batch == large_batch else examples[:_SMALL_BATCH_EXAMPLES]
            on_progress(f"{check.what}, batch {batch}, {len(part)} examples")
            answers = collect(check.runner, part, batch)
            expected_part = {name: array[: len(part)] for name, array in expected.items()}
            comparisons.append(_compare_batch(check, batch, answers, expected_part))
    return ParityReport(source=source, comparisons=tuple(comparisons))


def _compare_batch(check: ParityCheck, batch: int, answers: Answers, expected: Answers) -> BatchComparison:
    compared = (answers.keys() & expected.keys()) - _OF_NEIGHBORS
    error = {name: np.abs(answers[name].astype(np.float64) - expected[name]) for name in answers if name in compared}
    error |= _neighbor_error(answers, expected)
    return BatchComparison(
        what=check.what,
        reference=check.reference,
        tolerance=str(check.tolerance),
        batch=batch,
        examples=len(next(iter(answers.values()))),
        max_error={name: float(values.max()) for name, values in error.items()},
        argmax_differences=check.tolerance.other_classes(answers, expected),
        beyond_tolerance=check.tolerance.beyond(error, expected),
    )


def _neighbor_error(answers: Answers, expected: Answers) -> dict[str, npt.NDArray[Any]]:
    """Measure weights that were told against those of the entries named, and those against the largest weights.

    Entries are not compared by number: equal weights have no order.
    """
    if "neighbor_indices" not in answers or ATTENTION not in expected:
        return {}
    attention, weights = expected[ATTENTION].astype(np.float64), answers["neighbor_weights"]
    named = np.take_along_axis(attention, answers["neighbor_indices"], axis=1)
    largest = -np.sort(-attention, axis=1)[:, : weights.shape[1]]
    return {"neighbor_weights": np.maximum(np.abs(weights - named), np.abs(named - largest))}
