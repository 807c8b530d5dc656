"""Signals that end an export: they unwind it, so that nothing half-done is left behind."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

# `kill`, `timeout` and schedulers; a terminal that is closed. SIGINT raises KeyboardInterrupt by default.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """A signal asked the process to end; like an interrupt, no ``except Exception`` stops it.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        """Exit code as shells report it."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise :class:`Terminated` while the block runs, instead of ending the process at once.

    A signal that is ignored (``nohup``) stays so.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise Terminated(number)

    with _handled([number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN], end):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals that end the process while the block runs: for clearing away, which takes no time."""
    with _handled((*_ENDING, signal.SIGINT), signal.SIG_IGN):
        yield


@contextmanager
def deferred() -> Iterator[None]:
    """Hold signals that end the process back while the block runs; the first one acts when the block is left."""
    held: list[tuple[int, FrameType | None]] = []
    numbers = (*_ENDING, signal.SIGINT)
    handlers = {number: signal.getsignal(number) for number in numbers}
    caught = [number for number, handler in handlers.items() if callable(handler)]
    with _handled(caught, lambda number, frame: held.append((number, frame))):
        yield
    for number, frame in held[:1]:
        handler = handlers[signal.Signals(number)]
        assert callable(handler)
        handler(number, frame)


@contextmanager
def _handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    """Set a handler while the block runs; other threads than the main one cannot, and get no signals."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if in_main_thread}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
