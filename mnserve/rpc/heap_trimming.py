"""Memory that large messages had goes back to the operating system.

glibc keeps what is freed between small pieces that live on. gRPC receives a message in such pieces, and several large
messages at a time left some hundred MiB, more with every round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mnserve.engines.memory import heap_trim

LARGE_BYTES: Final = 2**20
_QUIET_SECONDS: Final = 0.5
_MOST_SECONDS: Final = 10.0


class HeapTrimming:
    """Trims the heap once large messages have come and gone; between them their memory is used again.

    Args:
        trim: Gives free memory back, in a thread; None takes that of glibc, where it is the C library.
        quiet: Seconds without a large message before that.
        most: Seconds after which it happens although they keep coming.
    """

    def __init__(
        self,
        trim: Callable[[], object] | None = None,
        *,
        quiet: float = _QUIET_SECONDS,
        most: float = _MOST_SECONDS,
    ) -> None:
        self._trim = heap_trim() if trim is None else trim
        self._quiet, self._most = quiet, most
        self._last = 0.0
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    def ended(self, nbytes: int) -> None:
        """Notes the end of a call, or the refusal of a message, of so many bytes."""
        if nbytes < LARGE_BYTES or self._trim is None:
            return
        self._last = asyncio.get_running_loop().time()
        self._count += 1
        if self._task is None:
            self._task = asyncio.ensure_future(self._trim_later(self._trim))

    async def _trim_later(self, trim: Callable[[], object]) -> None:
        clock = asyncio.get_running_loop().time
        trimmed = -1
        try:
            while trimmed < self._count:  # more may end while it is trimmed
                began = clock()
                while (wait := min(self._last + self._quiet, began + self._most) - clock()) > 0:
                    await asyncio.sleep(wait)
                trimmed = self._count
                await asyncio.to_thread(trim)
        finally:
            self._task = None
