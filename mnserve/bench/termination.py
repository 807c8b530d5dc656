"""Signals that unwind the stack, so that processes and temporary files are cleaned up."""

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
    """Makes SIGINT raise KeyboardInterrupt and SIGTERM raise SystemExit, from a chosen moment on.

    By default SIGTERM ends this process at once and leaves its child processes behind. SIGINT may raise while a child
    is being started, which then is lost.

    Yields:
        A function to call once there is something to clean up. A signal that came earlier takes effect then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # only the main thread may set signal handlers
        return
    armed = False
    received: int | None = None

    def unwind() -> None:
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
        unwind()

    def arm() -> None:
        nonlocal armed
        armed = True
        unwind()

    # Signals that this process ignores, as under nohup, stay ignored.
    handled = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, on_signal) for number in handled}
    try:
        yield arm
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
