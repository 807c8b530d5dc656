"""When a batcher looks for something to run next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["DispatchTimer"]


class DispatchTimer:
    """Calls once what has arrived by now is in line, or after a while; once for however many reasons.

    Args:
        call: What is called, on the event loop.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.Handle | None = None

    @property
    def sleeping(self) -> bool:
        """Whether it waits for a time, which :meth:`set` without seconds cuts short."""
        return isinstance(self._handle, asyncio.TimerHandle)

    def set(self, seconds: float = 0.0) -> None:
        """Calls as soon as the loop comes round, or after some seconds unless it is set already."""
        loop = asyncio.get_running_loop()
        if self._handle is not None:
            if seconds or not self.sleeping:
                return
            self._handle.cancel()
        self._handle = loop.call_later(seconds, self._call) if seconds else loop.call_soon(self._call)

    def clear(self) -> None:
        """Does not call, unless it is set again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
