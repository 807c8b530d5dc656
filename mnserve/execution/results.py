"""Results of a batch: its outputs, split by caller, and the durations of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class BatchTimes:
    """Durations of the stages of a batch, in nanoseconds."""

    input_ns: int
    infer_ns: int
    output_ns: int


NO_TIMES = BatchTimes(input_ns=0, infer_ns=0, output_ns=0)
"""Durations of an answer for which nothing was run."""


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """Outputs of one batch, split by caller.

    Attributes:
        outputs: For each caller the arrays it asked for, (B_i, ...) views of the batch's outputs.
        rows: B.
        times: Durations of the stages.
    """

    outputs: list[list[Array]]
    rows: int
    times: BatchTimes


class InferenceResult(NamedTuple):
    """Outputs for one caller.

    Attributes:
        arrays: The outputs asked for, (B_i, ...).
        queue_ns: Time from admission to the start of the batch.
        times: Durations of the batch's stages.
        lookup_ns: Time spent looking for a kept answer; negative where none are kept.
        kept: The answer was kept from an equal request.
    """

    arrays: list[Array]
    queue_ns: int
    times: BatchTimes
    lookup_ns: int = -1
    kept: bool = False
