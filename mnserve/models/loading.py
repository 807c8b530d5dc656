"""From files to a model that can answer: verify, load, check, warm up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mnserve.batching.from_config import batcher_options
from mnserve.batching.options import BatcherOptions
from mnserve.codec.signature import RequestSignature
from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.graph_options import needed_sizes
from mnserve.engines.instance_groups import instance_count, instance_options
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.optional_outputs import CORE_NAME, CPU_NAME, CoreFirstEngine
from mnserve.engines.padded import PaddedEngine
from mnserve.engines.sessions import cpu_alone
from mnserve.errors import EngineError, ModelConfigError
from mnserve.execution.health_options import EngineHealthOptions
from mnserve.models.response_cache import ModelResponses, ResponseCache
from mnserve.models.warm_up import probe_of, run_samples, warm_up
from mnserve.models.warm_up_samples import samples
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.config_support import check_supported, warn_of_ignored
from mnserve.repository.model_config import allowed_batch_sizes, complete, signature
from mnserve.repository.model_files import ModelFiles, verified_path, verify
from mnserve.repository.reader import read_model

_log = logging.getLogger(__name__)

EngineFactory = Callable[[Path, EngineOptions], Engine]
"""Loads a model file."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What applies to every model.

    Attributes:
        engine: How engines are set up.
        default_max_batch_size: Most rows in a batch of a model whose configuration does not say.
        max_queue_rows: Most rows that may wait for one model; 0 is 64 batches, or what max_queue_size asks for.
        max_queue_bytes: Most bytes of tensors that may wait for one model.
        warm_up: Run batches of zeros, and the samples of the configuration, first.
        run_timeout: Seconds that a run may take before the engine counts as broken; 0 for no limit.
        cache: Keeps answers of the models whose configuration asks for it; None keeps none.
        alone: Run one instance of each model with the engine options as they are, whatever its instance_group says.
        factory: Loads model files.
    """

    engine: EngineOptions = field(default_factory=EngineOptions)
    default_max_batch_size: int = 32
    max_queue_rows: int = 0
    max_queue_bytes: int = 2**30
    warm_up: bool = True
    run_timeout: float = 0.0
    cache: ResponseCache | None = None
    alone: bool = False
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
        instances: How many engines run side by side.
        another: Loads and warms up one more engine, in the thread that will run it.
        watch: When its engines count as broken.
        responses: Answers that are kept; None where none are.
    """

    name: str
    version: int
    config: ModelConfig
    signature: RequestSignature
    engine: Engine
    file: str
    batching: BatcherOptions
    instances: int
    another: Callable[[], Engine]
    watch: EngineHealthOptions
    responses: ModelResponses | None


def load(root: Path, name: str, version: int, options: LoadOptions, override: ModelConfig | None = None) -> LoadedModel:
    """Loads one version of a model. Takes a while; not for the event loop.

    Args:
        root: The repository.
        name: The model.
        version: Its version.
        options: What applies to every model.
        override: What counts instead of its config.pbtxt.

    Raises:
        RepositoryError: What is on disk cannot be served.
        EngineError: The engine cannot load or run it.
    """
    files = read_model(root, name, version, override)
    check_supported(files.config)
    warn_of_ignored(files.config)
    verify(files)
    if not options.alone:
        count = instance_count(files.config)
        options = replace(options, engine=instance_options(files.config, options.engine, count))
    return _first_ready(files, replace(options, engine=_with_needed_graphs(files, options)))


def _first_ready(files: ModelFiles, options: LoadOptions) -> LoadedModel:
    """The model with the file beside it that suits this machine best. One made for CPUs may need a kernel that another
    release of the runtime, or this processor, does not have; then there is still the model.
    """
    cpu, core = verified_path(files, CPU_NAME), verified_path(files, CORE_NAME)
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
        sizes = allowed_batch_sizes(files.config)
        config = complete(
            files.config,
            engine.inputs,
            engine.outputs,
            default_max_batch_size=min([options.default_max_batch_size, *sizes[-1:]]),
        )
        rules = signature(config, engine.inputs, engine.outputs)
        batching = batcher_options(
            config, max_queue_rows=options.max_queue_rows, max_queue_bytes=options.max_queue_bytes
        )
        _warm_up(engine, files, rules, options)
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
        instances=1 if options.alone else instance_count(config),
        another=partial(_another, files, beside, options, rules),
        watch=EngineHealthOptions(run_timeout=options.run_timeout, probe=probe_of(rules) if options.warm_up else None),
        responses=_responses(files, options),
    )


def _another(files: ModelFiles, beside: Path | None, options: LoadOptions, rules: RequestSignature) -> Engine:
    """One more engine of a model that was loaded already."""
    engine, _ = _open(files, beside, options)
    try:
        _warm_up(engine, files, rules, options)
    except BaseException:
        engine.close()
        raise
    return engine


def _responses(files: ModelFiles, options: LoadOptions) -> ModelResponses | None:
    if not files.config.response_cache.enable:
        return None
    if options.cache is None:
        _log.warning("model '%s': its answers are not kept, as the server has no --cache-bytes", files.name)
        return None
    return ModelResponses(options.cache)


def _warm_up(engine: Engine, files: ModelFiles, rules: RequestSignature, options: LoadOptions) -> None:
    if options.warm_up:
        warm_up(engine, rules, allowed_batch_sizes(files.config))
        run_samples(engine, rules, samples(files.config, rules, files.model_path.parent.parent))


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
    """The engine of a model, which pads batches where only some sizes are allowed; and the name of the file that gives
    the outputs of every request."""
    sizes = allowed_batch_sizes(files.config)
    engine, file = _open_files(files, beside, options)
    if not sizes:
        return engine, file
    try:
        return PaddedEngine(engine, sizes), file
    except ModelConfigError as error:
        engine.close()
        raise ModelConfigError(f"model '{files.name}': {error}") from error


def _open_files(files: ModelFiles, beside: Path | None, options: LoadOptions) -> tuple[Engine, str]:
    """The engine of a model, in two parts where a smaller file lies beside it."""
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
