"""What ends an export from outside unwinds it, so that nothing half-done is left behind."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

# `kill`, `timeout` and schedulers; a terminal that is closed. SIGINT raises KeyboardInterrupt as ever.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """A signal asked the process to end; like an interrupt, no ``except Exception`` stops it.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        """As a shell tells it."""


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP raise :class:`Terminated` while the block runs; by default they end the process on the spot.

    A signal that is ignored (``nohup``) stays so.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise Terminated(number)

    with _handled([number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN], end):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """What would end the process is ignored while the block runs: for clearing away, which takes no time."""
    with _handled((*_ENDING, signal.SIGINT), signal.SIG_IGN):
        yield


@contextmanager
def _handled(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    """Only the main thread may say what signals do, and only there do they raise."""
    mine = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if mine}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
