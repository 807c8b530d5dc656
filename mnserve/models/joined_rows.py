"""Comparison of the answers to joined rows with those to the same rows alone: may requests share a batch?

Shapes: row i alone gives [1, ...]; B joined rows have to give [B, ...].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.engines.base import TensorSpec
from mnserve.repository.shared_axes import means_something

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]

_TOLERANCES: Final = {"FP64": 1e-9, "FP32": 1e-4, "FP16": 2e-2, "BF16": 2e-2}
"""Largest difference of floats, relative to the largest value of the output. Kernels add up in another order in a
batch; a model whose rows look at each other differs by far more."""
_BLOCK: Final = 2**20
"""Elements that are compared at once."""


class Verdict(Enum):
    """Outcome of the comparison.

    Attributes:
        EQUAL: Joined rows gave the answers that they give alone.
        DIFFERENT: They did not.
        UNKNOWN: Nothing could be compared.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class JoinedRows:
    """What was found out about joined rows.

    Attributes:
        verdict: The outcome.
        reason: The reason, as a clause.
    """

    verdict: Verdict
    reason: str


def obstacle(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str | None:
    """Describes why the shapes of a model allow no batches; None where they may.

    Every first dimension has to be open. Where names are given, it has to be the same for all.
    """
    tensors = [*(("input", spec) for spec in inputs if not spec.optional), *(("output", spec) for spec in outputs)]
    if not any(kind == "input" for kind, _ in tensors):
        return "it has no inputs"
    for kind, spec in tensors:
        if spec.shape[:1] != (-1,):
            return f"the first dimension of {kind} '{spec.name}' {list(spec.shape)} is no batch of any size"
    named = {spec.axis: f"{kind} '{spec.name}'" for kind, spec in reversed(tensors) if means_something(spec.axis)}
    if len(named) > 1:
        (first, owner), (other, other_owner) = list(reversed(named.items()))[:2]
        return f"first dimensions have different names, '{first[:40]}' in {owner} and '{other[:40]}' in {other_owner}"
    return None


def join(rows: Sequence[Tensors]) -> Tensors:
    """Joins rows: name -> [B, ...].

    Raises:
        ValueError: Their shapes differ.
    """
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def repeated(rows: Tensors, count: int) -> Tensors:
    """Repeats joined rows in turn: name -> [count, ...]."""
    return {name: np.take(array, np.arange(count) % len(array), axis=0) for name, array in rows.items()}


def every_second(rows: Tensors) -> Tensors:
    """Takes rows 0, 2, 4, … of joined rows."""
    return {name: array[::2] if array.ndim else array for name, array in rows.items()}


def first_changed(before: Tensors, after: Tensors) -> str | None:
    """Names the first output that is not the same, bit for bit (but for NaN); None where all are."""
    for name, array in before.items():
        if array.shape != after[name].shape or not _same(array, after[name]):
            return name
    return None


def tell_apart(answers: Sequence[Tensors]) -> bool:
    """Returns True if some output of two rows differs; where all are the same, joined rows show nothing."""
    return any(first_changed(answers[0], answer) is not None for answer in answers[1:])


def difference(alone: Sequence[Tensors], joined: Tensors, rules: RequestSignature) -> str | None:
    """Describes the first output in which joined rows differ from single ones; None where they agree.

    Args:
        alone: Answers to rows 0 to B - 1, [1, ...] each.
        joined: Answer to all of them.
        rules: Rules of the outputs.
    """
    count = len(alone)
    for name, array in joined.items():
        singles = [answer[name] for answer in alone]
        if any(single.shape[:1] != (1,) for single in singles):
            shape = next(list(single.shape) for single in singles if single.shape[:1] != (1,))
            return f"output '{name}' has shape {shape} for one row"
        if array.shape[:1] != (count,):
            return f"output '{name}' has shape {list(array.shape)} for {count} joined rows"
        if any(single.shape[1:] != array.shape[1:] for single in singles):
            shape = next(list(single.shape) for single in singles if single.shape[1:] != array.shape[1:])
            return f"output '{name}' has shape {shape} for a row alone and {list(array.shape)} for {count} joined rows"
    return values_differ(join(alone), joined, rules)


def values_differ(expected: Tensors, joined: Tensors, rules: RequestSignature) -> str | None:
    """Describes the first output that differs from what is expected, both [B, ...]; None where they agree."""
    for name, array in joined.items():
        if array.shape != expected[name].shape:
            return f"output '{name}' has shape {list(array.shape)} for {len(expected[name])} joined rows"
        if (fault := _difference(expected[name], array, rules.output_rules[name])) is not None:
            return f"output '{name}' of {len(array)} joined rows differs from that of the rows alone{fault}"
    return None


def _difference(expected: Array, actual: Array, rule: TensorRule) -> str | None:
    """Says by how much, as the end of a sentence that may be empty; None where they agree."""
    if not rule.datatype.floating:
        return None if _same(expected, actual) else ""
    largest = off = 0.0
    for first, second in _blocks(expected, actual):
        a, b = _as_floats(first, rule), _as_floats(second, rule)
        finite = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(np.where(finite, 0.0, a), np.where(finite, 0.0, b), equal_nan=True):
            return " in values that are NaN or infinite"
        a, b = a[finite], b[finite]
        largest = max(largest, float(np.abs(a).max(initial=0.0)))
        off = max(off, float(np.abs(a - b).max(initial=0.0)))
    if off <= _TOLERANCES[rule.datatype.name] * largest:
        return None
    return f" by up to {off:.2g}, where the largest value is {largest:.2g}"


def _as_floats(array: Array, rule: TensorRule) -> Array:
    if rule.datatype.name == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def _same(a: Array, b: Array) -> bool:
    return all(np.array_equal(*pair, equal_nan=a.dtype.kind == "f") for pair in _blocks(a, b))


def _blocks(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """Cuts two arrays of one shape into the same parts, so that comparing them takes little memory beside theirs."""
    row = math.prod(a.shape[1:])
    if a.size <= _BLOCK:
        yield a, b
    elif row <= _BLOCK:
        step = _BLOCK // row
        for start in range(0, len(a), step):
            yield a[start : start + step], b[start : start + step]
    else:
        for first, second in zip(a, b, strict=True):
            for start in range(0, row, _BLOCK):
                yield first.ravel()[start : start + _BLOCK], second.ravel()[start : start + _BLOCK]
