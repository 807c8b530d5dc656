"""What every command needs of its process: standard output that may be closed or lack a letter, and SIGTERM.

``mnserve`` has its own module, since it may not import this package.
"""

import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

_FIRST_PROCESS = 1


def end_at_sigterm() -> None:
    """End the process at SIGTERM with 143 where it is the first one of a container, which has no default actions."""
    if os.getpid() == _FIRST_PROCESS and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _unwind)


def _unwind(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def run_command(run: Callable[[], int]) -> int:
    """Run a command, and flush its output.

    Letters that the terminal's encoding lacks are written as escapes. A closed pipe (``… | head``) gives exit code 1
    without a message.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at exit, and would fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return 1
    return code
