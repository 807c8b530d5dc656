"""Folder of the result of a comparison or cross-validation."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mntrain.errors import ConfigError, TrainingError


@contextmanager
def result_folder(path: Path) -> Iterator[None]:
    """Make the folder, and lock it while the block runs.

    Raises:
        ConfigError: another process works on it.
        TrainingError: the folder cannot be written, now or in the block.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / ".lock")
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise ConfigError(f"Another process works on {path}; wait for it, or choose another --output.") from error
        try:
            yield
        finally:
            lock.release()
    except OSError as error:
        raise TrainingError(
            f"Folder {path} cannot be written: {error.strerror or error}; make room or choose another --output."
        ) from error
