"""Watch over the runs of a model that is being loaded, for whoever waits in another thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class RunWatch:
    """Knows how long the run that goes on has taken. One thread runs, others may look."""

    def __init__(self) -> None:
        self._started: float | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Counts the time of a run."""
        self._started = time.monotonic()
        try:
            yield
        finally:
            self._started = None

    @property
    def seconds(self) -> float:
        """Seconds since the run began; 0 where nothing runs."""
        started = self._started
        return 0.0 if started is None else time.monotonic() - started
