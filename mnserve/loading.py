"""From files to a model that can answer: verify, load, check, warm up."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mnserve.batching import BatcherOptions
from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.core_first import CORE_NAME, CPU_NAME, CoreFirstEngine
from mnserve.engines.graph_options import needed_sizes
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.sessions import cpu_alone
from mnserve.errors import EngineLoadError, EngineRunError, MnServeError, ModelConfigError
from mnserve.execution import Work, execute
from mnserve.model_config import check_supported, complete, signature
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository import ModelFiles, read_model, verify, vouched
from mnserve.signature import Signature, TensorRule

__all__ = ["EngineFactory", "LoadOptions", "LoadedModel", "load"]

_log = logging.getLogger(__name__)

EngineFactory = Callable[[Path, EngineOptions], Engine]
"""Loads a model file."""

QUEUE_BATCHES = 64
"""Batches that may wait where nothing else is said."""
WARM_UP_BYTES = 2**28
"""Largest input of a warm-up batch. Requests are smaller: a message is, by default, a quarter of that."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What applies to every model.

    Attributes:
        engine: How engines are set up.
        default_max_batch_size: Most rows in a batch of a model whose configuration does not say.
        max_queue_rows: Most rows that may wait for one model; 0 is QUEUE_BATCHES batches.
        max_queue_bytes: Most bytes of tensors that may wait for one model.
        warm_up: Run batches of zeros first.
        factory: Loads model files.
    """

    engine: EngineOptions = field(default_factory=EngineOptions)
    default_max_batch_size: int = 32
    max_queue_rows: int = 0
    max_queue_bytes: int = 2**30
    warm_up: bool = True
    factory: EngineFactory = OnnxRuntimeEngine


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model that can answer.

    Attributes:
        name: Its name.
        version: Its version.
        config: Its configuration without gaps.
        signature: What requests have to look like.
        engine: Runs it.
        file: Name of the file that gives a client what it gets without asking for more.
        batching: Limits of its batcher.
    """

    name: str
    version: int
    config: ModelConfig
    signature: Signature
    engine: Engine
    file: str
    batching: BatcherOptions


def load(root: Path, name: str, version: int, options: LoadOptions) -> LoadedModel:
    """Loads one version of a model. Takes a while; not for the event loop.

    Raises:
        RepositoryError: What is on disk cannot be served.
        EngineError: The engine cannot load or run it.
    """
    files = read_model(root, name, version)
    check_supported(files.config)
    verify(files)
    options = replace(options, engine=_with_needed_graphs(files, options))
    engine, file = _open(files, options)
    try:
        config = complete(
            files.config,
            engine.inputs,
            engine.outputs,
            default_max_batch_size=options.default_max_batch_size,
        )
        rules = signature(config, engine.inputs, engine.outputs)
        batching = _batching(config, options)
        if options.warm_up:
            _warm_up(engine, rules)
    except BaseException:
        engine.close()
        raise
    return LoadedModel(
        name=name,
        version=version,
        config=config,
        signature=rules,
        engine=engine,
        file=file,
        batching=batching,
    )


def _with_needed_graphs(files: ModelFiles, options: LoadOptions) -> EngineOptions:
    """Engine options with the CUDA graphs that this model's batches can need: none without a batch dimension."""
    sizes, config = options.engine.cuda_graph_batches, files.config
    most = config.max_batch_size or options.default_max_batch_size
    if sizes and config.max_batch_size == 0 and (config.input or config.output):
        _log.warning(
            "model '%s' runs without CUDA graphs: its max_batch_size is 0, so a batch cannot be padded", files.name
        )
        most = 0
    return replace(options.engine, cuda_graph_batches=needed_sizes(sizes, most) if most else ())


def _open(files: ModelFiles, options: LoadOptions) -> tuple[Engine, str]:
    """The engine of a model, in two parts where it was published with a smaller file beside it; and the name of the
    file that gives the outputs of every request."""
    whole = options.factory(files.model_path, options.engine)
    try:
        core, name = _open_core(files, options) or (whole, files.model_path.name)
    except BaseException:
        whole.close()
        raise
    if core is whole:
        return whole, name
    try:
        pair = CoreFirstEngine(whole, core)
    except BaseException:
        whole.close()
        core.close()
        raise
    if core.outputs == whole.outputs:
        whole.close()
        return core, name
    return pair, name


def _open_core(files: ModelFiles, options: LoadOptions) -> tuple[Engine, str] | None:
    """The file beside a model that gives what everyone gets, and its name: one made for CPUs where there is nothing
    else. That one may need a kernel that another release of the runtime does not have; then there is still the model.
    """
    names = [CPU_NAME] if cpu_alone(options.engine) else []
    for path in (vouched(files, name) for name in (*names, CORE_NAME)):
        if path is None:
            continue
        try:
            return options.factory(path, options.engine), path.name
        except EngineLoadError as error:
            if path.name != CPU_NAME:
                raise
            _log.warning("model '%s' version %d runs without %s: %s", files.name, files.version, CPU_NAME, error)
    return None


def _batching(config: ModelConfig, options: LoadOptions) -> BatcherOptions:
    batch = max(1, config.max_batch_size)
    policy = config.dynamic_batching.default_queue_policy.max_queue_size
    rows = max(policy, batch) if policy else options.max_queue_rows or QUEUE_BATCHES * batch
    return BatcherOptions(
        max_batch_size=config.max_batch_size,
        max_queue_rows=rows,
        max_queue_bytes=options.max_queue_bytes,
        max_delay=config.dynamic_batching.max_queue_delay_microseconds / 1e6,
    )


def _warm_up(engine: Engine, rules: Signature) -> None:
    """Runs a batch of zeros with one row and one with as many rows as allowed, where that is of a sensible size.

    Raises:
        ModelConfigError: There is not enough memory for it.
        EngineError: The engine fails, or answers with something else than the configuration says.
    """
    wanted = {tuple(rules.output_rules), tuple(rules.default_outputs)}
    for rows in sorted({1, max(1, rules.max_batch_size)}):
        size = sum(math.prod(_shape(rule, rows, rules)) * rule.datatype.dtype.itemsize for rule in rules.inputs)
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


def _run_zeros(engine: Engine, rules: Signature, rows: int, outputs: tuple[str, ...]) -> None:
    feeds = {rule.name: _zeros(rule, rows, rules) for rule in rules.inputs}
    work = Work(feeds=feeds, rows=rows, outputs=outputs)
    try:
        execution = execute(engine, [work], batched=rules.max_batch_size > 0)
    except MnServeError as error:
        if any(
            -1 in rule.dims for rule in rules.inputs
        ):  # 1 stood in for sizes that the configuration leaves open; the model may need others
            _log.warning("model '%s': not warmed up: %s", rules.model, error)
            return
        raise EngineLoadError(
            f"model '{rules.model}' fails on a warm-up batch of {rows} rows of zeros: {error}"
        ) from error
    _check_outputs(rules, dict(zip(outputs, execution.answers[0], strict=True)))


def _shape(rule: TensorRule, rows: int, rules: Signature) -> list[int]:
    dims = [1 if size == -1 else size for size in rule.dims]
    return [rows, *dims] if rules.max_batch_size > 0 else dims


def _zeros(rule: TensorRule, rows: int, rules: Signature) -> np.ndarray[Any, Any]:
    shape = _shape(rule, rows, rules)
    if rule.datatype.is_bytes:
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, dtype=rule.datatype.dtype)


def _check_outputs(rules: Signature, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
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
