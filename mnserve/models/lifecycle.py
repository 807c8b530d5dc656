"""Loading of the versions of a model that its version policy selects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from mnserve.engines.instance_groups import instances_here
from mnserve.errors import EngineLoadError, MnServeError, ModelNotReadyError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.run_watch import RunWatch
from mnserve.models.load_options import LoadOptions
from mnserve.models.loading import LoadedModel, load
from mnserve.models.served import ServedModel
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.reader import list_versions, read_config, served_versions
from mnserve.text.names import shortened

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_MAX_REASON: Final = 2000
"""Most characters of a reason, which may hold a name out of a file of megabytes."""


async def load_versions(
    root: Path,
    name: str,
    options: LoadOptions,
    before: Mapping[int, ServedModel],
    on_change: Callable[[], None],
    override: ModelConfig | None = None,
) -> tuple[dict[int, ServedModel], dict[int | None, str]]:
    """Loads the selected versions of a model, one after the other.

    Args:
        root: The repository.
        name: Name of the model.
        options: Options of every model.
        before: Versions that were loaded before; their counters continue.
        on_change: Called when the readiness of a version changes.
        override: Configuration in place of config.pbtxt.

    Returns:
        The loaded versions, and the reason for each version that could not be loaded. Both are empty for a model that
        runs on other GPUs than this process.
    """
    options.on_load(name, True)
    try:
        return await _load_selected(root, name, options, before, on_change, override)
    finally:
        options.on_load(name, False)


async def _load_selected(
    root: Path,
    name: str,
    options: LoadOptions,
    before: Mapping[int, ServedModel],
    on_change: Callable[[], None],
    override: ModelConfig | None,
) -> tuple[dict[int, ServedModel], dict[int | None, str]]:
    loaded: dict[int, ServedModel] = {}
    faults: dict[int | None, str] = {}
    version: int | None = None
    try:
        on_disk = await asyncio.to_thread(list_versions, root, name)
        version = on_disk[-1] if on_disk else None
        config = await asyncio.to_thread(read_config, root, name) if override is None else override
        selected = served_versions(config, on_disk)
        if not options.alone and not instances_here(config, options.engine):
            _log.info("model '%s' runs on other GPUs than %d, that of this process", name, options.engine.device)
            return {}, {}
        if not selected:
            raise ModelNotReadyError(f"model '{name}' has no version folder; put its file under {name}/1/")
    except Exception as error:  # noqa: BLE001 (one bad model must not stop the others)
        return {}, {version: _explain(name, version, error)}
    for version in selected:
        try:
            watched = replace(options, watch=RunWatch())
            model, instances = await _open(name, partial(load, root, name, version, watched, override), watched)
            served = _started(model, instances, on_change, before.get(version))
        except BaseException as error:
            if not isinstance(error, Exception):
                for earlier in loaded.values():
                    await earlier.retire()
                raise
            faults[version] = _explain(name, version, error)
            continue
        loaded[version] = served
        _log.info("model '%s' version %d is ready: %s", name, version, model.findings.batching)
    return loaded, faults


def _started(
    model: LoadedModel, instances: tuple[Instance, ...], on_change: Callable[[], None], before: ServedModel | None
) -> ServedModel:
    """Starts the batcher of a loaded model; after a failure all engines are closed."""
    try:
        served = ServedModel(model, instances, on_change, before)
        served.batcher.start()
    except BaseException:
        for instance in instances:
            instance.engine.close()
            instance.thread.close()
        raise
    return served


async def _open(
    name: str, load: Callable[[], LoadedModel], options: LoadOptions
) -> tuple[LoadedModel, tuple[Instance, ...]]:
    """Loads a model and its further engines, one after the other, each in the thread that will run it.

    On cancellation the thread closes the engine that it is loading, once the engine is loaded.

    Args:
        name: Name of the model.
        load: Loads the model with its first engine.
        options: Options of the load; with the watch over its runs.

    Raises:
        RepositoryError, EngineError: The model cannot be loaded, or a run does not end; all engines are closed, except
            one that hangs.
    """
    threads = [EngineThread(name)]
    instances: list[Instance] = []
    try:
        call = threads[0].call(load, unwanted=lambda model: model.close())
        model = await _within_run_timeout(call, name, options)
        instances.append(Instance(engine=model.engine, thread=threads[0]))
        if model.wide is not None:
            threads.append(EngineThread(name))
            instances.append(Instance(engine=model.wide, thread=threads[-1], lone_rows=model.wide_rows))
        for _ in range(model.instances - 1):
            threads.append(EngineThread(name))
            further = threads[-1].call(model.another, unwanted=lambda engine: engine.close())
            engine = await _within_run_timeout(further, name, options)
            instances.append(Instance(engine=engine, thread=threads[-1]))
    except BaseException:
        for instance in instances:
            instance.engine.close()
        for thread in threads:
            thread.close()
        raise
    return model, tuple(instances)


async def _within_run_timeout(call: Coroutine[Any, Any, _Result], name: str, options: LoadOptions) -> _Result:
    """Waits for a load as long as each of its runs ends in time. A thread that hangs in a run is left to itself.

    Raises:
        EngineLoadError: A run does not end in time.
    """
    limit = options.run_timeout
    if not limit:
        return await call
    task = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait((task,), timeout=min(1.0, limit / 4)))[0]:
            if options.watch.seconds > limit:
                raise EngineLoadError(
                    f"model '{name}': a warm-up run has not ended after {limit:g} s (--run-timeout); raise the limit, "
                    'or switch its warm-up off with the parameter mn.warm_up "false" in config.pbtxt'
                )
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait((task,))  # the thread is told to close the engine before it is told to end


def _explain(name: str, version: int | None, error: Exception) -> str:
    """Logs and returns the reason why a model cannot be served; an unexpected error is logged with its traceback."""
    expected = isinstance(error, MnServeError)
    reason = shortened(str(error) if expected else f"{type(error).__name__}: {error}", _MAX_REASON)
    where = "" if version is None else f" version {version}"
    _log.error("model '%s'%s cannot be served: %s", name, where, reason, exc_info=None if expected else error)
    return reason
