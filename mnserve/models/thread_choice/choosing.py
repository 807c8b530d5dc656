"""Threads and instances of a model that is being loaded: as somebody says, or as a trial shows."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from mnserve.engines.base import Engine, EngineOptions
from mnserve.engines.cpu import available_cpus
from mnserve.engines.memory import available_bytes, give_back_free_memory
from mnserve.engines.sessions import runs_on_cpus_alone
from mnserve.errors import MnServeError
from mnserve.models.joined_rows import repeated
from mnserve.models.load_options import LoadOptions
from mnserve.models.opening import open_engine
from mnserve.models.thread_choice.trial import ChosenEngines, ThreadTrial, TrialPlan
from mnserve.models.trying import TriedModel, warm_up_further
from mnserve.models.warm_up_plan import WarmUp
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.model_files import ModelFiles
from mnserve.repository.model_parameters import allowed_batch_sizes, decides_batching

_log = logging.getLogger(__name__)

_EXTRA_BYTES: Final = 2**28
"""Memory that further engines of one model may take: weights, and what their largest batch needs."""


def choose_engines(
    engine: Engine, files: ModelFiles, variant: Path | None, options: LoadOptions, tried: TriedModel
) -> ChosenEngines:
    """Chooses threads and instances of a model whose engine was tried, and logs what was chosen.

    Args:
        engine: Engine of the model, with the threads that it is given.
        files: Its files.
        variant: The file for the default outputs; None for none.
        options: Options of every model.
        tried: What was found out about the model.

    Raises:
        EngineError: A sample of the configuration fails with other threads.
    """
    asis = ChosenEngines(engine=engine, options=options.engine, text=_as_given(files.config, options.engine))
    found, extra = tried.warm_up, _further_engines(files, tried)
    if (
        found is None
        or found.probe is None
        or found.costs is None
        or not options.choice_seconds
        or options.alone
        or asis.text
    ):
        return asis
    cpus = available_cpus()
    if cpus < 2:
        return replace(asis, text="1 thread, as there is 1 CPU")
    if extra is None:
        return replace(asis, text=f"{cpus} threads: the model is too large to be tried with fewer beside")
    plan = TrialPlan(
        cpus=cpus,
        work=found.probe(),
        costs=found.costs if tried.rules.max_batch_size else replace(found.costs, most=found.costs.one, rows=1),
        extra=extra,
        seconds=options.choice_seconds,
        trims=not decides_batching(files.config) and not allowed_batch_sizes(files.config),
        watch=options.watch,
    )
    trial = ThreadTrial(engine, options.engine, tried.rules, plan, partial(_open, files, variant, options))
    try:
        chosen = trial.run()
    except (MnServeError, MemoryError) as error:  # it runs as it is
        return replace(asis, text=f"{cpus} threads: one thread could not be tried ({error})")
    if plan.trims:
        give_back_free_memory()
    if chosen.engine is not engine and files.config.model_warmup:
        try:
            warm_up_further(chosen.engine, files, tried.rules, options)
        except BaseException:
            for opened in (chosen.engine, chosen.wide):
                if opened is not None:
                    opened.close()
            raise
    _log.info("model '%s': %s", files.name, chosen.text)
    return chosen


def warm_up_chosen(engine: Engine, files: ModelFiles, options: LoadOptions, tried: TriedModel) -> None:
    """Warms up one more engine that nobody asked for: all samples, or a row and a batch that ran before.

    Raises:
        EngineError: A run fails.
    """
    found = tried.warm_up
    if found is None or found.probe is None or files.config.model_warmup:
        warm_up_further(engine, files, tried.rules, options)
        return
    work = found.probe()
    for rows in sorted({1, _most_rows(files, found)}):
        with options.watch.running():
            engine.run(work.feeds if rows == 1 else repeated(work.feeds, rows), work.outputs)


def _most_rows(files: ModelFiles, found: WarmUp) -> int:
    decided = decides_batching(files.config) or bool(allowed_batch_sizes(files.config))
    return found.costs.rows if decided and found.costs is not None else 1


def _open(files: ModelFiles, variant: Path | None, options: LoadOptions, engine: EngineOptions) -> Engine:
    return open_engine(files, variant, replace(options, engine=engine))[0]


def _as_given(config: ModelConfig, options: EngineOptions) -> str:
    """Says who has chosen the threads or the instances; empty where they are left to the server."""
    if not runs_on_cpus_alone(options):
        return "threads and instances as they are given, as the model does not run on CPUs alone"
    if options.global_thread_pool:
        return "threads of the pool that all models share (--global-thread-pool)"
    if options.intra_op_threads or options.inter_op_threads > 1 or any(group.count for group in config.instance_group):
        threads = options.intra_op_threads or available_cpus()
        return f"{threads} thread{'s' * (threads > 1)} an engine, as options or config.pbtxt say"
    return ""


def _further_engines(files: ModelFiles, tried: TriedModel) -> int | None:
    """Counts the engines that there is memory for beside the first; None where even one for the trial is too much."""
    file_bytes = sum(file.stat().st_size for file in files.version_folder.rglob("*") if file.is_file())
    free = available_bytes()
    most = _EXTRA_BYTES if free is None else min(_EXTRA_BYTES, free // 4)
    if file_bytes > most:
        return None
    row_bytes = 0.0 if tried.warm_up is None else tried.warm_up.row_bytes
    return int(most // max(1.0, file_bytes + row_bytes * max(1, tried.rules.max_batch_size)))
