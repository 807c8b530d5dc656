"""Batches before the first request: memory is taken, kernels are chosen, a model that cannot run is found."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mnserve.codec.decoding import InferenceWork
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.engines.base import Engine
from mnserve.errors import EngineLoadError, EngineRunError, MnServeError, ModelConfigError
from mnserve.execution.batch import execute
from mnserve.models.warm_up_samples import Sample

__all__ = ["WARM_UP_BYTES", "probe_of", "run_samples", "warm_up"]

_log = logging.getLogger(__name__)

WARM_UP_BYTES = 2**28
"""Largest input of a warm-up batch. Requests are smaller: a message is, by default, a quarter of that."""


def warm_up(engine: Engine, rules: RequestSignature, sizes: Sequence[int] = ()) -> None:
    """Runs a batch of zeros with one row and one with as many rows as allowed, where that is of a sensible size.

    Args:
        engine: The engine.
        rules: What requests have to look like.
        sizes: Further numbers of rows; those beyond the maximum are left out.

    Raises:
        ModelConfigError: There is not enough memory for it.
        EngineError: The engine fails, or answers with something else than the configuration says.
    """
    wanted = {tuple(rules.output_rules), tuple(rules.default_outputs)}
    most = max(1, rules.max_batch_size)
    for rows in sorted({1, most, *(size for size in sizes if size < most)}):
        size = _input_bytes(rules, rows)
        if size > WARM_UP_BYTES:
            _log.warning(
                "model '%s': no warm-up batch of %d rows: its inputs alone have %d bytes, more than %d; lower "
                "max_batch_size if requests never are that large",
                *(rules.model, rows, size, WARM_UP_BYTES),
            )
            return
        try:
            for outputs in sorted(wanted, key=len):
                _run_zeros(engine, rules, rows, outputs)
        except MemoryError as error:
            raise ModelConfigError(
                f"model '{rules.model}': no memory for a warm-up batch of {rows} rows; lower max_batch_size in "
                "config.pbtxt, or start the server with --no-warm-up"
            ) from error


def probe_of(rules: RequestSignature) -> InferenceWork | None:
    """One row of zeros, which a model that was warmed up has run; None where sizes are open, or it is large."""
    if _input_bytes(rules, 1) > WARM_UP_BYTES or any(-1 in rule.dims for rule in rules.inputs):
        return None
    return _zeros_work(rules, 1, tuple(rules.default_outputs))


def run_samples(engine: Engine, rules: RequestSignature, samples: Iterable[Sample]) -> None:
    """Runs the samples of the configuration.

    Raises:
        EngineLoadError: One of them fails; names it.
    """
    for sample in samples:
        _log.debug("model '%s': warm-up sample '%s'", rules.model, sample.name)
        try:
            for _ in range(sample.runs):
                execution = execute(engine, [sample.work], sample.work.feeds, batched=rules.max_batch_size > 0)
            _check_outputs(rules, dict(zip(sample.work.outputs, execution.outputs[0], strict=True)))
        except (MnServeError, MemoryError) as error:
            raise EngineLoadError(
                f"model '{rules.model}' fails on the warm-up sample '{sample.name}' of config.pbtxt: "
                f"{str(error) or 'there is no memory for it'}"
            ) from error


def _zeros_work(rules: RequestSignature, rows: int, outputs: tuple[str, ...]) -> InferenceWork:
    feeds = {rule.name: rule.datatype.zeros(_shape(rule, rows, rules)) for rule in rules.inputs}
    return InferenceWork(feeds=feeds, rows=rows, outputs=outputs)


def _input_bytes(rules: RequestSignature, rows: int) -> int:
    return sum(math.prod(_shape(rule, rows, rules)) * rule.datatype.dtype.itemsize for rule in rules.inputs)


def _run_zeros(engine: Engine, rules: RequestSignature, rows: int, outputs: tuple[str, ...]) -> None:
    work = _zeros_work(rules, rows, outputs)
    try:
        execution = execute(engine, [work], work.feeds, batched=rules.max_batch_size > 0)
    except MnServeError as error:
        if any(
            -1 in rule.dims for rule in rules.inputs
        ):  # 1 stood in for sizes that the configuration leaves open; the model may need others
            _log.warning("model '%s': not warmed up: %s", rules.model, error)
            return
        raise EngineLoadError(
            f"model '{rules.model}' fails on a warm-up batch of {rows} rows of zeros: {error}"
        ) from error
    _check_outputs(rules, dict(zip(outputs, execution.outputs[0], strict=True)))


def _shape(rule: TensorRule, rows: int, rules: RequestSignature) -> list[int]:
    dims = [1 if size == -1 else size for size in rule.dims]
    return [rows, *dims] if rules.max_batch_size > 0 else dims


def _check_outputs(rules: RequestSignature, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    for name, array in arrays.items():
        rule = rules.output_rules[name]
        if not rule.datatype.is_bytes and array.dtype != rule.datatype.dtype:
            raise EngineRunError(
                f"model '{rules.model}': output '{rule.name}' comes as {array.dtype}, expected {rule.datatype.name}"
            )
        expected = rules.full_shape(rule)
        if len(expected) != array.ndim or any(
            size not in (-1, given) for size, given in zip(expected, array.shape, strict=True)
        ):
            raise EngineRunError(
                f"model '{rules.model}': output '{rule.name}' comes with shape {list(array.shape)}, but its "
                f"configuration says {expected}; correct config.pbtxt"
            )
