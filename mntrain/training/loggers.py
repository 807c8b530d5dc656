"""Loggers of a run: TensorBoard events in its folder, and those of Lightning for MLflow and Weights & Biases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from mntrain.config import ExperimentConfig
from mntrain.errors import ConfigError
from mntrain.missing_packages import missing_extra
from mntrain.terminal_text import plain
from mntrain.training.reporting import EventWriter, Row
from mntrain.training.run_folder import RunFolder


class RemoteLogger(Protocol):
    """A logger whose place may be a server."""

    def add_row(self, row: Row) -> None:
        """Log the metrics of an epoch."""

    def add_result(self, result: Mapping[str, Any], artifact: Path) -> None:
        """Log the final figures, and where the artifact lies."""

    def close(self, *, failed: bool) -> None:
        """End the run, as failed or finished."""


class RunLoggers:
    """The loggers of one run.

    Args:
        run: folder of the run.
        events: TensorBoard; None where it is off.
        remote: name → logger. One that fails is dropped with a sentence, since a training outweighs its log.
    """

    def __init__(self, run: RunFolder, events: EventWriter | None, remote: dict[str, RemoteLogger]) -> None:
        self._run = run
        self._events = events
        self._remote = remote

    def add_row(self, row: Row) -> None:
        """Log the metrics of an epoch.

        Raises:
            TrainingError: events cannot be written.
        """
        if self._events is not None:
            with self._run.writing():
                self._events.add(row)
        self._each(lambda logger: logger.add_row(row))

    def add_result(self, result: Mapping[str, Any]) -> None:
        """Log the final figures of ``metrics.json``, and where the artifact lies."""
        artifact = (self._run.path / "artifact").resolve()
        self._each(lambda logger: logger.add_result(result, artifact))

    def close(self, *, failed: bool) -> None:
        """Finish all logs.

        Raises:
            TrainingError: events cannot be written.
        """
        self._each(lambda logger: logger.close(failed=failed))
        if self._events is not None:
            with self._run.writing():
                self._events.close()

    def _each(self, call: Callable[[RemoteLogger], None]) -> None:
        for name, logger in list(self._remote.items()):
            try:
                call(logger)
            except Exception as error:  # noqa: BLE001  clients of servers raise any kind of error
                del self._remote[name]
                text = f"note: {name} gets no more figures of this run ({_reason(error)}); training goes on"
                Console(stderr=True).print(plain(text), soft_wrap=True)


@contextmanager
def open_loggers(run: RunFolder, config: ExperimentConfig, finished_epochs: int) -> Iterator[RunLoggers]:
    """Open the loggers of a run for the block; one that goes on continues under its earlier names.

    Args:
        run: folder of the run, which exists.
        config: of the run, logged as hyperparameters.
        finished_epochs: events of later epochs, left by a run that was killed, are hidden.

    Raises:
        ConfigError: a package is missing, or a logger cannot be started.
        TrainingError: the folder cannot be written.
    """
    names = config.training.loggers
    with run.writing():
        events = EventWriter(run.path / "events", finished_epochs) if "tensorboard" in names else None
    loggers = RunLoggers(run, events, {})
    failed = True
    try:
        for name in names:
            if name != "tensorboard":
                loggers._remote[name] = _start(name, run.path, config)
        yield loggers
        failed = False
    finally:
        loggers.close(failed=failed)


def check_loggers(config: ExperimentConfig) -> None:
    """Refuse loggers whose package is missing, before anything is written.

    Raises:
        ConfigError: with the extra that brings it.
    """
    for name in config.training.loggers:
        for package in () if name == "tensorboard" else (name, "pytorch_lightning"):
            if not _is_installed(package):
                missing = ModuleNotFoundError(name=package)
                sentence = missing_extra(missing, f"training.loggers {name}", name)
                raise ConfigError(f"training.loggers has {name}, but {sentence}.")


def _is_installed(package: str) -> bool:
    """True for a package that could be imported; it is not, since it may report that it was."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _start(name: str, run: Path, config: ExperimentConfig) -> RemoteLogger:
    from mntrain.training.lightning_loggers import start_logger  # seconds, which other runs need not wait

    try:
        return start_logger(name, run, config)
    except Exception as error:
        raise ConfigError(
            f"training.loggers has {name}, which cannot be started ({_reason(error)}); check its settings and server, "
            "or leave it out."
        ) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".rstrip(".: ")
