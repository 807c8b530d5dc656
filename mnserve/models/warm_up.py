"""Warm-up batches before the first request: they allocate memory, select kernels, and reveal faults of the model."""

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

_log = logging.getLogger(__name__)

WARM_UP_BYTES = 2**28
"""Largest input of a warm-up batch in bytes. Requests are smaller: by default a message has a quarter of it at most."""


def warm_up(engine: Engine, rules: RequestSignature, sizes: Sequence[int] = ()) -> None:
    """Runs batches of zeros with one row and with the maximum of rows, up to WARM_UP_BYTES.

    Args:
        engine: The engine.
        rules: Rules for requests.
        sizes: Further numbers of rows; those beyond the maximum are left out.

    Raises:
        ModelConfigError: The memory does not suffice.
        EngineError: The engine fails, or its outputs contradict the configuration.
    """
    output_sets = {tuple(rules.output_rules), tuple(rules.default_outputs)}
    max_rows = max(1, rules.max_batch_size)
    for rows in sorted({1, max_rows, *(size for size in sizes if size < max_rows)}):
        size = _input_bytes(rules, rows)
        if size > WARM_UP_BYTES:
            _log.warning(
                "model '%s': no warm-up batch of %d rows: its inputs alone have %d bytes, more than %d; lower "
                "max_batch_size if requests never are that large",
                *(rules.model, rows, size, WARM_UP_BYTES),
            )
            return
        try:
            for outputs in sorted(output_sets, key=len):
                _run_zeros(engine, rules, rows, outputs)
        except MemoryError as error:
            raise ModelConfigError(
                f"model '{rules.model}': no memory for a warm-up batch of {rows} rows; lower max_batch_size in "
                "config.pbtxt, or start the server with --no-warm-up"
            ) from error


def health_probe(rules: RequestSignature) -> InferenceWork | None:
    """Returns the health probe of a warm model: one row of zeros. None for open or large inputs."""
    if _input_bytes(rules, 1) > WARM_UP_BYTES or any(-1 in rule.dims for rule in rules.inputs):
        return None
    return _zeros_work(rules, 1, tuple(rules.default_outputs))


def run_samples(engine: Engine, rules: RequestSignature, samples: Iterable[Sample]) -> None:
    """Runs the samples of the configuration.

    Raises:
        EngineLoadError: A sample fails; the message names it.
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
        if any(-1 in rule.dims for rule in rules.inputs):  # open sizes are 1 here, and the model may need others
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
            size not in (-1, actual) for size, actual in zip(expected, array.shape, strict=True)
        ):
            raise EngineRunError(
                f"model '{rules.model}': output '{rule.name}' comes with shape {list(array.shape)}, but its "
                f"configuration says {expected}; correct config.pbtxt"
            )
