"""One run of the engine for several callers: run what was joined, and cut the answer apart again.

Shapes: request i brings B_i rows; the batch has B = sum of B_i. Called from a model's worker thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mnserve.engines.base import Engine
from mnserve.errors import EngineRunError

__all__ = ["NO_TIMES", "BatchResult", "BatchTimes", "InferenceWork", "execute"]

Array = np.ndarray[Any, Any]


@dataclass(kw_only=True, eq=False)
class InferenceWork:
    """What one caller wants computed.

    Attributes:
        feeds: Input name -> (B_i, ...) array; without the leading dimension where the model has none.
        rows: B_i, or 1 for a model without a batch dimension.
        outputs: Names of the outputs wanted.
    """

    feeds: Mapping[str, Array]
    rows: int
    outputs: tuple[str, ...]

    @cached_property
    def nbytes(self) -> int:
        """Memory of ``feeds``; strings count with what they hold, which takes a look at each."""
        return sum([_nbytes(array) for array in self.feeds.values()])


@dataclass(frozen=True, kw_only=True)
class BatchTimes:
    """How long each stage of a batch took, in nanoseconds."""

    input_ns: int
    infer_ns: int
    output_ns: int


NO_TIMES = BatchTimes(input_ns=0, infer_ns=0, output_ns=0)
"""Of an answer for which nothing was run."""


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """The answers to one batch.

    Attributes:
        answers: For each caller the arrays it asked for, (B_i, ...) views of the batch's outputs.
        rows: B.
        times: Durations of the stages.
    """

    answers: list[list[Array]]
    rows: int
    times: BatchTimes


def execute(
    engine: Engine, works: Sequence[InferenceWork], feeds: Mapping[str, Array], *, batched: bool
) -> BatchResult:
    """Runs the engine once for all callers. Their inputs differ in nothing but the number of rows.

    Args:
        engine: The engine.
        works: At least one caller's work; exactly one where ``batched`` is false.
        feeds: Their inputs joined: name -> (B, ...).
        batched: Whether the model has a batch dimension.

    Raises:
        EngineRunError: The engine failed, or answered with another number of rows than it was given.
    """
    rows = sum(work.rows for work in works)
    wanted = {name for work in works for name in work.outputs}
    names = [spec.name for spec in engine.outputs if spec.name in wanted]
    started = time.perf_counter_ns()
    arrays = dict(zip(names, engine.run(feeds, names), strict=True))
    ran = time.perf_counter_ns()
    if batched:
        _check_rows(arrays, rows)
    answers = _split(works, arrays) if len(works) > 1 else [[arrays[name] for name in works[0].outputs]]
    times = BatchTimes(input_ns=0, infer_ns=ran - started, output_ns=time.perf_counter_ns() - ran)
    return BatchResult(answers=answers, rows=rows, times=times)


def _nbytes(array: Array) -> int:
    return array.nbytes if array.dtype != object else array.nbytes + sum(sys.getsizeof(item) for item in array.flat)


def _split(works: Sequence[InferenceWork], arrays: Mapping[str, Array]) -> list[list[Array]]:
    answers = []
    start = 0
    for work in works:
        stop = start + work.rows
        answers.append([arrays[name][start:stop] for name in work.outputs])
        start = stop
    return answers


def _check_rows(arrays: Mapping[str, Array], rows: int) -> None:
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[0] != rows:
            raise EngineRunError(
                f"output '{name}' has shape {list(array.shape)} for a batch of {rows} rows; its first "
                "dimension is not the batch, so set max_batch_size to 0"
            )
