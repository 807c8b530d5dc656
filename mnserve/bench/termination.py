"""SIGTERM that unwinds the stack, so that what was started or made is cleaned up."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["sigterm_exits"]


@contextmanager
def sigterm_exits() -> Iterator[Callable[[], None]]:
    """Lets SIGTERM unwind the stack; by default it ends this process on the spot and leaves the server behind.

    Yields:
        A function to call when there is something to clean up. A signal that came earlier takes effect then: an
        exception in the middle of starting a process would lose sight of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # only the main thread may choose what signals do
        return
    armed = received = False

    def leave() -> None:
        if armed and received:
            sys.exit(128 + signal.SIGTERM)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received = True
        leave()

    def arm() -> None:
        nonlocal armed
        armed = True
        leave()

    previous = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield arm
    finally:
        signal.signal(signal.SIGTERM, previous)
