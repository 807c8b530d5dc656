"""Loading every version of a model that its policy selects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mnserve.errors import MnServeError, ModelNotReadyError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.models.loading import LoadedModel, LoadOptions, load
from mnserve.models.served import ServedModel
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.repository.reader import list_versions, read_config, served_versions

_log = logging.getLogger(__name__)


async def load_versions(
    root: Path,
    name: str,
    options: LoadOptions,
    before: Mapping[int, ServedModel],
    on_change: Callable[[], None],
    override: ModelConfig | None = None,
) -> tuple[dict[int, ServedModel], dict[int | None, str]]:
    """The versions of a model that are to be served, loaded one after the other, and why others are not.

    Args:
        root: The repository.
        name: The model.
        options: What applies to every model.
        before: Versions as they were loaded before; their counters go on.
        on_change: Called when the readiness of a version changes.
        override: What counts instead of the model's config.pbtxt.
    """
    found: dict[int, ServedModel] = {}
    faults: dict[int | None, str] = {}
    version: int | None = None
    try:
        on_disk = await asyncio.to_thread(list_versions, root, name)
        version = on_disk[-1] if on_disk else None
        config = await asyncio.to_thread(read_config, root, name) if override is None else override
        chosen = served_versions(config, on_disk)
        if not chosen:
            raise ModelNotReadyError(f"model '{name}' has no version folder; put its file under {name}/1/")
    except Exception as error:  # noqa: BLE001 (one bad model must not stop the others)
        return {}, {version: _explain(name, version, error)}
    for version in chosen:
        try:
            model, instances = await _open(name, partial(load, root, name, version, options, override))
        except BaseException as error:
            if not isinstance(error, Exception):
                for served in found.values():
                    await served.retire()
                raise
            faults[version] = _explain(name, version, error)
            continue
        found[version] = served = ServedModel(model, instances, on_change, before.get(version))
        served.batcher.start()
        _log.info("model '%s' version %d is ready", name, version)
    return found, faults


async def _open(name: str, load: Callable[[], LoadedModel]) -> tuple[LoadedModel, tuple[Instance, ...]]:
    """Loads a model and as many further engines as its configuration asks for, each in the thread that will run it,
    one after the other. If it is cancelled, the engine that is being loaded is closed by its thread once it is there.

    Args:
        name: Name of the model.
        load: Loads the model with its first engine.

    Raises:
        RepositoryError, EngineError: The model cannot be loaded; nothing stays open.
    """
    threads = [EngineThread(name)]
    found: list[Instance] = []
    try:
        model = await threads[0].call(load, unwanted=lambda model: model.engine.close())
        found.append(Instance(engine=model.engine, thread=threads[0]))
        while len(found) < model.instances:
            threads.append(EngineThread(name))
            engine = await threads[-1].call(model.another, unwanted=lambda engine: engine.close())
            found.append(Instance(engine=engine, thread=threads[-1]))
    except BaseException:
        for instance in found:
            instance.engine.close()
        for thread in threads:
            thread.close()
        raise
    return model, tuple(found)


def _explain(name: str, version: int | None, error: Exception) -> str:
    """Logs why a model cannot be served; a fault of ours with its traceback."""
    expected = isinstance(error, MnServeError)
    reason = str(error) if expected else f"{type(error).__name__}: {error}"
    where = "" if version is None else f" version {version}"
    _log.error("model '%s'%s cannot be served: %s", name, where, reason, exc_info=None if expected else error)
    return reason
