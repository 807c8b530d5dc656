"""Loading of a model from its files: verify, load, check, warm up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mnserve.batching.from_config import batcher_options
from mnserve.batching.options import BatcherOptions
from mnserve.codec.signature import RequestSignature
from mnserve.engines.backend_parameters import with_backend_parameters
from mnserve.engines.base import Engine
from mnserve.engines.instance_groups import instance_options, instances_here
from mnserve.engines.optional_outputs import CORE_NAME, CPU_NAME
from mnserve.engines.sessions import runs_on_cpus_alone
from mnserve.errors import CorruptModelError, EngineError, EngineRunError
from mnserve.execution.health_options import EngineHealthOptions
from mnserve.models.findings import Findings
from mnserve.models.load_options import LoadOptions
from mnserve.models.opening import open_engine, with_needed_graphs
from mnserve.models.response_cache import ModelResponses
from mnserve.models.thread_choice.choosing import choose_engines, warm_up_chosen
from mnserve.models.thread_choice.run_costs import RunCosts
from mnserve.models.trying import TriedModel, try_out, warm_up_further
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.config_support import check_supported, warn_of_ignored
from mnserve.repository.labels import labels_by_output
from mnserve.repository.model_files import ModelFiles, verified_path, verify
from mnserve.repository.model_parameters import with_defaults
from mnserve.repository.reader import read_config, read_model

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A loaded model with its first engine.

    Attributes:
        name: Name of the model.
        version: Number of the version.
        config: Complete configuration.
        signature: Rules for requests.
        engine: First engine of the model.
        wide: Its engine for batches that come alone; None where it has none for them.
        wide_rows: Least rows of such a batch.
        file: Name of the file that computes the default outputs.
        findings: What was found out about it.
        batching: Limits of the batcher.
        instances: Number of engines that run side by side.
        another: Loads and warms up one more engine, in the thread that will run it.
        run_costs: Times of its runs; None where nothing was run.
        health: Rules by which an engine counts as broken.
        responses: Cached answers of the model; None without a cache.
    """

    name: str
    version: int
    config: ModelConfig
    signature: RequestSignature
    engine: Engine
    wide: Engine | None
    wide_rows: int
    file: str
    findings: Findings
    batching: BatcherOptions
    instances: int
    another: Callable[[], Engine]
    run_costs: RunCosts | None
    health: EngineHealthOptions
    responses: ModelResponses | None

    def close(self) -> None:
        """Closes the engines that it came with."""
        self.engine.close()
        if self.wide is not None:
            self.wide.close()


def load(root: Path, name: str, version: int, options: LoadOptions, override: ModelConfig | None = None) -> LoadedModel:
    """Loads one version of a model. Blocks for a while, so it is not for the event loop.

    Args:
        root: The repository.
        name: Name of the model.
        version: Number of the version.
        options: Options of every model.
        override: Configuration in place of config.pbtxt.

    Raises:
        RepositoryError: The files cannot be served.
        EngineError: The engine cannot load or run the model.
    """
    try:
        files = read_model(root, name, version, override)
    except CorruptModelError:
        check_supported(override or read_config(root, name))  # models of other backends have other files
        raise
    files = replace(files, config=with_defaults(files.config, exported=files.export is not None))
    check_supported(files.config)
    warn_of_ignored(files.config)
    verify(files)
    count, engine = 1, options.engine
    if not options.alone:
        count = max(1, instances_here(files.config, engine))
        engine = instance_options(files.config, engine, count)
    options = replace(options, engine=with_backend_parameters(files.config, engine, count))
    return _load_best_files(files, replace(options, engine=with_needed_graphs(files, options)))


def _load_best_files(files: ModelFiles, options: LoadOptions) -> LoadedModel:
    """Loads the model with the variant that suits this machine best.

    A variant may need a kernel that another release of the runtime, or this processor, lacks. Then the model is loaded
    without it.
    """
    names = (CPU_NAME, CORE_NAME) if runs_on_cpus_alone(options.engine) else (CORE_NAME,)
    for variant in filter(None, (verified_path(files, name) for name in names)):
        try:
            return _load_files(files, variant, options)
        except EngineError as error:
            _log.warning("model '%s' version %d runs without %s: %s", files.name, files.version, variant.name, error)
    return _load_files(files, None, options)


def _load_files(files: ModelFiles, variant: Path | None, options: LoadOptions) -> LoadedModel:
    """Loads, checks and warms up the model, with ``variant`` for the default outputs."""
    engine, file = open_engine(files, variant, options)
    try:
        tried = try_out(engine, files, options)
        rules = replace(tried.rules, labels=labels_by_output(tried.config, files.version_folder.parent))
        if variant is not None and tried.warm_up is not None and not tried.warm_up.ran:
            raise EngineRunError(tried.warm_up.text)
        if not tried.rules.max_batch_size and options.engine.cuda_graph_batches:
            _log.warning("model '%s' runs without CUDA graphs: %s", files.name, tried.findings.batching)
            options = replace(options, engine=replace(options.engine, cuda_graph_batches=()))
            engine.close()
            engine, file = open_engine(files, variant, options)
            warm_up_further(engine, files, tried.rules, options)
        batching = batcher_options(
            tried.config, max_queue_rows=options.max_queue_rows, max_queue_bytes=options.max_queue_bytes
        )
        chosen = choose_engines(engine, files, variant, options, tried)
    except BaseException:
        engine.close()
        raise
    costs = tried.warm_up.costs if chosen.costs is None and tried.warm_up is not None else chosen.costs
    return LoadedModel(
        name=files.name,
        version=files.version,
        config=tried.config,
        signature=rules,
        engine=chosen.engine,
        wide=chosen.wide,
        wide_rows=chosen.wide_rows,
        file=file,
        findings=replace(tried.findings, threads=chosen.text),
        batching=batching,
        instances=1 if options.alone else max(chosen.instances, instances_here(tried.config, options.engine)),
        another=partial(
            _load_another, files, variant, replace(options, engine=chosen.options), tried, chosen.instances > 1
        ),
        run_costs=costs,
        health=EngineHealthOptions(
            run_timeout=options.run_timeout, probe=None if tried.warm_up is None else tried.warm_up.probe
        ),
        responses=_responses(files, options),
    )


def _load_another(
    files: ModelFiles, variant: Path | None, options: LoadOptions, tried: TriedModel, unasked: bool
) -> Engine:
    """Loads one more engine of a loaded model, which the configuration asks for or not."""
    engine, _ = open_engine(files, variant, options)
    try:
        if unasked:
            warm_up_chosen(engine, files, options, tried)
        else:
            warm_up_further(engine, files, tried.rules, options)
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
