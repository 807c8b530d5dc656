"""Signals that unwind the stack, so that what was started or made is cleaned up."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_unwind() -> Iterator[Callable[[], None]]:
    """Lets SIGINT raise KeyboardInterrupt and SIGTERM SystemExit, both not before there is something to clean up.

    By default SIGTERM ends this process on the spot and leaves behind what it has started, and SIGINT may raise in the
    middle of starting a process, which then nobody knows.

    Yields:
        A function to call when there is something to clean up. A signal that came earlier takes effect then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # only the main thread may choose what signals do
        return
    armed = False
    received: int | None = None

    def leave() -> None:
        nonlocal received
        if not armed or received is None:
            return
        number, received = received, None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal received
        received = number
        leave()

    def arm() -> None:
        nonlocal armed
        armed = True
        leave()

    # What this process was told to ignore, as nohup does, stays ignored.
    caught = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, on_signal) for number in caught}
    try:
        yield arm
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
