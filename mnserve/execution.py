"""One run of the engine for several callers: join their rows, run, and cut the answer apart again.

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

__all__ = ["NO_TIMES", "BatchTimes", "Execution", "Work", "execute"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Work:
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
        return sum(_nbytes(array) for array in self.feeds.values())


@dataclass(frozen=True, kw_only=True)
class BatchTimes:
    """How long each stage of a batch took, in nanoseconds."""

    input_ns: int
    infer_ns: int
    output_ns: int


NO_TIMES = BatchTimes(input_ns=0, infer_ns=0, output_ns=0)
"""Of an answer for which nothing was run."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """The answers to one batch.

    Attributes:
        answers: For each caller the arrays it asked for, (B_i, ...) views of the batch's outputs.
        rows: B.
        times: Durations of the stages.
    """

    answers: list[list[Array]]
    rows: int
    times: BatchTimes


def execute(engine: Engine, works: Sequence[Work], *, batched: bool) -> Execution:
    """Runs the engine once for all callers. Their inputs differ in nothing but the number of rows.

    Args:
        engine: The engine.
        works: At least one caller's work; exactly one where ``batched`` is false.
        batched: Whether the model has a batch dimension.

    Raises:
        EngineRunError: The engine failed, or answered with another number of rows than it was given.
    """
    started = time.perf_counter_ns()
    rows = sum(work.rows for work in works)
    feeds = works[0].feeds if len(works) == 1 else _join(works)
    wanted = {name for work in works for name in work.outputs}
    names = [spec.name for spec in engine.outputs if spec.name in wanted]
    joined = time.perf_counter_ns()
    arrays = dict(zip(names, engine.run(feeds, names), strict=True))
    ran = time.perf_counter_ns()
    if batched:
        _check_rows(arrays, rows)
    answers = _split(works, arrays) if len(works) > 1 else [[arrays[name] for name in works[0].outputs]]
    ended = time.perf_counter_ns()
    times = BatchTimes(input_ns=joined - started, infer_ns=ran - joined, output_ns=ended - ran)
    return Execution(answers=answers, rows=rows, times=times)


def _nbytes(array: Array) -> int:
    return array.nbytes if array.dtype != object else array.nbytes + sum(sys.getsizeof(item) for item in array.flat)


def _join(works: Sequence[Work]) -> dict[str, Array]:
    """Writes every row once into the arrays of the batch."""
    return {name: np.concatenate([work.feeds[name] for work in works]) for name in works[0].feeds}


def _split(works: Sequence[Work], arrays: Mapping[str, Array]) -> list[list[Array]]:
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
