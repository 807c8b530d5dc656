"""What is served: every model of the repository with its state, found by name and version.

A model that cannot be loaded stands beside the others with the reason; it does not keep them from being served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mnserve.batcher import Batcher, engine_thread
from mnserve.errors import InvalidRequestError, MnServeError, ModelNotReadyError, UnknownModelError
from mnserve.loading import LoadedModel, LoadOptions, load
from mnserve.names import listed
from mnserve.repository import MAX_VERSION_DIGITS, list_models, list_versions, read_config, served_versions
from mnserve.statistics import ModelCounters

__all__ = ["ModelState", "Models", "ServedModel"]

_log = logging.getLogger(__name__)


class ServedModel:
    """A loaded model with its batcher and its counters.

    Args:
        model: The loaded model.
        thread: The thread that loaded it, and will run it: CUDA graphs belong to the thread that captured them.
        on_change: Called when its readiness changes.
    """

    def __init__(self, model: LoadedModel, thread: ThreadPoolExecutor, on_change: Callable[[], None]) -> None:
        self.model = model
        self.fault: str | None = None
        """Why it is not ready, or None."""
        self._on_change = on_change
        self.counters = ModelCounters(model.name, model.version, lambda: self.batcher.waiting_requests)
        self.batcher = Batcher(
            model.engine,
            name=model.name,
            options=model.batching,
            on_batch=self.counters.record_batch,
            on_death=self._died,
            thread=thread,
        )

    def _died(self, reason: str) -> None:
        self.fault = reason
        self._on_change()


@dataclass(frozen=True, kw_only=True)
class ModelState:
    """One line of the list of models.

    Attributes:
        name: Name of the model.
        version: Its version, or None where none could be found out.
        served: The model, or None where it could not be loaded.
        reason: Why it is not ready; empty where it is.
    """

    name: str
    version: int | None
    served: ServedModel | None
    reason: str

    @property
    def ready(self) -> bool:
        """Whether it answers requests."""
        return not self.reason


class Models:
    """Every model of one repository.

    Args:
        root: The repository.
        options: What applies to every model.
        on_change: Called when readiness changes after the start.
    """

    def __init__(self, root: Path, options: LoadOptions, on_change: Callable[[], None] = lambda: None) -> None:
        self._root = root
        self._options = options
        self._on_change = on_change
        self._served: dict[str, dict[int, ServedModel]] = {}
        self._faults: dict[str, dict[int | None, str]] = {}
        self._stopping = False

    async def load_all(self) -> None:
        """Loads every model, one after the other, and starts the batchers.

        Raises:
            RepositoryNotFoundError: The repository is no folder.
        """
        for name in await asyncio.to_thread(list_models, self._root):
            await self._load_model(name)

    async def _load_model(self, name: str) -> None:
        versions = self._served.setdefault(name, {})
        faults = self._faults.setdefault(name, {})
        version: int | None = None
        try:
            on_disk = list_versions(self._root, name)
            version = on_disk[-1] if on_disk else None
            chosen = served_versions(read_config(self._root, name), on_disk)
            if not chosen:
                raise ModelNotReadyError(f"model '{name}' has no version folder; put its file under {name}/1/")
        except Exception as error:  # noqa: BLE001 (one bad model must not stop the others)
            faults[version] = _explain(name, version, error)
            return
        for version in chosen:
            thread = engine_thread(name)
            loading = asyncio.get_running_loop().run_in_executor(thread, load, self._root, name, version, self._options)
            try:
                model = await loading
            except BaseException as error:
                thread.shutdown(wait=False)
                if not isinstance(error, Exception):
                    raise
                faults[version] = _explain(name, version, error)
                continue
            versions[version] = served = ServedModel(model, thread, self._on_change)
            served.batcher.start()
            _log.info("model '%s' version %d is ready", name, version)

    def states(self) -> list[ModelState]:
        """All models, by name and version."""
        states: list[ModelState] = []
        for name in sorted(self._served):
            for version, served in self._served[name].items():
                reason = served.fault or ("the server is stopping" if self._stopping else "")
                states.append(ModelState(name=name, version=version, served=served, reason=reason))
            for failed, reason in self._faults[name].items():
                states.append(ModelState(name=name, version=failed, served=None, reason=reason))
        return sorted(states, key=lambda state: (state.name, state.version or 0))

    def counters(self) -> list[ModelCounters]:
        """Counters of the models that were loaded."""
        return [state.served.counters for state in self.states() if state.served is not None]

    @property
    def ready(self) -> bool:
        """Whether every model answers requests."""
        states = self.states()
        return bool(states) and all(state.ready for state in states)

    def find(self, name: str, version: str = "") -> ServedModel:
        """The model that a request means, ready or stopping.

        Args:
            name: Name of the model.
            version: Its version; empty is the highest that is ready.

        Raises:
            UnknownModelError: There is no such model, or it is not served in this version.
            InvalidRequestError: The version is not a number.
            ModelNotReadyError: The model is there but cannot answer.
        """
        if name not in self._served:
            raise UnknownModelError(f"there is no model '{name[:64]}'; the server has {listed(sorted(self._served))}")
        served, faults = self._served[name], self._faults[name]
        if version:
            return self._find_version(name, _number(version))
        ready = [number for number, model in served.items() if model.fault is None]
        if ready:
            return served[max(ready)]
        reasons = [*faults.values(), *(model.fault for model in served.values() if model.fault)]
        raise ModelNotReadyError(f"model '{name}' is not ready: {'; '.join(reasons)}")

    def _find_version(self, name: str, version: int) -> ServedModel:
        served, faults = self._served[name], self._faults[name]
        if version in served:
            model = served[version]
            if model.fault is not None:
                raise ModelNotReadyError(f"model '{name}' version {version} is not ready: {model.fault}")
            return model
        if version in faults:
            raise ModelNotReadyError(f"model '{name}' version {version} is not ready: {faults[version]}")
        known = ", ".join(map(str, sorted(served))) or "none"
        raise UnknownModelError(f"model '{name}' has no version {version}; the server has {known}")

    def is_ready(self, name: str, version: str = "") -> bool:
        """Whether a model answers requests; False for one that does not exist.

        Raises:
            InvalidRequestError: The version is not a number.
        """
        try:
            self.find(name, version)
        except (UnknownModelError, ModelNotReadyError):
            return False
        return not self._stopping

    def stop(self) -> None:
        """Calls everything not ready from now on; requests are still answered."""
        self._stopping = True
        self._on_change()

    async def drain(self, timeout: float) -> bool:
        """Refuses new requests, finishes those that were admitted, and closes the engines.

        Args:
            timeout: Seconds to wait for them.

        Returns:
            Whether all of them finished in time.
        """
        models = [model for versions in self._served.values() for model in versions.values()]
        for model in models:
            model.batcher.refuse()
        tasks = [asyncio.ensure_future(model.batcher.drain()) for model in models]
        if not tasks:
            return True
        done, _ = await asyncio.wait(tasks, timeout=timeout)
        finished = True
        for model, task in zip(models, tasks, strict=True):
            if task in done or model.batcher.idle:  # an idle one only has yet to notice that it stops
                await task
                model.model.engine.close()
            else:
                finished = False
                model.batcher.abort()
                task.cancel()
        return finished


def _number(version: str) -> int:
    if not (version.isascii() and version.isdigit() and len(version) <= MAX_VERSION_DIGITS):
        raise InvalidRequestError(
            f"model version '{version[:32]}' is not a number; give one such as 1, or leave it out"
        )
    return int(version)


def _explain(name: str, version: int | None, error: Exception) -> str:
    """Logs why a model cannot be served; a fault of ours with its traceback."""
    expected = isinstance(error, MnServeError)
    reason = str(error) if expected else f"{type(error).__name__}: {error}"
    where = "" if version is None else f" version {version}"
    _log.error("model '%s'%s cannot be served: %s", name, where, reason, exc_info=None if expected else error)
    return reason
