"""From files to a model that can answer: verify, load, check, warm up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mnserve.batching import BatcherOptions
from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.core_first import CORE_NAME, CPU_NAME, CoreFirstEngine
from mnserve.engines.graph_options import needed_sizes
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.sessions import cpu_alone
from mnserve.errors import EngineError
from mnserve.model_config import check_supported, complete, signature
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository import ModelFiles, read_model, verify, vouched
from mnserve.signature import Signature
from mnserve.warm_up import warm_up

__all__ = ["EngineFactory", "LoadOptions", "LoadedModel", "load"]

_log = logging.getLogger(__name__)

EngineFactory = Callable[[Path, EngineOptions], Engine]
"""Loads a model file."""

QUEUE_BATCHES = 64
"""Batches that may wait where nothing else is said."""


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
    return _first_ready(files, replace(options, engine=_with_needed_graphs(files, options)))


def _first_ready(files: ModelFiles, options: LoadOptions) -> LoadedModel:
    """The model with the file beside it that suits this machine best. One made for CPUs may need a kernel that another
    release of the runtime, or this processor, does not have; then there is still the model.
    """
    cpu, core = vouched(files, CPU_NAME), vouched(files, CORE_NAME)
    if cpu is not None and cpu_alone(options.engine):
        try:
            return _ready(files, cpu, options)
        except EngineError as error:
            _log.warning("model '%s' version %d runs without %s: %s", files.name, files.version, CPU_NAME, error)
    return _ready(files, core, options)


def _ready(files: ModelFiles, beside: Path | None, options: LoadOptions) -> LoadedModel:
    """The model with ``beside`` for what everyone gets, checked and warmed up."""
    engine, file = _open(files, beside, options)
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
            warm_up(engine, rules)
    except BaseException:
        engine.close()
        raise
    return LoadedModel(
        name=files.name,
        version=files.version,
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


def _open(files: ModelFiles, beside: Path | None, options: LoadOptions) -> tuple[Engine, str]:
    """The engine of a model, in two parts where a smaller file lies beside it; and the name of the file that gives the
    outputs of every request."""
    whole = options.factory(files.model_path, options.engine)
    if beside is None:
        return whole, files.model_path.name
    try:
        core = options.factory(beside, options.engine)
    except BaseException:
        whole.close()
        raise
    try:
        pair = CoreFirstEngine(whole, core)
    except BaseException:
        whole.close()
        core.close()
        raise
    if core.outputs == whole.outputs:
        whole.close()
        return core, beside.name
    return pair, beside.name


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
