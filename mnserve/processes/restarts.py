"""Waits before a process that died is started again: longer from one death to the next."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

_FIRST: Final = 0.25
"""Seconds before the second start in a row; the first comes at once."""
_LONGEST: Final = 30.0
_CALM: Final = 10.0
"""Seconds of life after which earlier deaths are forgotten."""


class Restarts:
    """Waits of one place for a process.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wait = 0.0
        self._started = clock()

    def started(self) -> None:
        """Notes that a process was started."""
        self._started = self._clock()

    def wait(self) -> float:
        """Returns the seconds to wait after a death, before the process is started again."""
        if self._clock() - self._started >= _CALM:
            self._wait = 0.0
        wait, self._wait = self._wait, min(_LONGEST, max(_FIRST, 2 * self._wait))
        return wait

    async def start_again(self, start: Callable[[], None], name: str, *, at_once: bool = False) -> None:
        """Starts a process after its wait, and tries again for as long as the system starts none.

        Args:
            start: Starts it; raises OSError where it cannot be.
            name: Its name, for the log.
            at_once: Do not wait the first time.
        """
        wait = 0.0 if at_once else self.wait()
        while True:
            await asyncio.sleep(wait)
            try:
                start()
                return
            except OSError as error:
                wait = max(_FIRST, self.wait())
                _log.error("%s cannot be started (%s); tried again in %g s", name, error.strerror or error, wait)
