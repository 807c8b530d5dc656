"""Signals that come before a command handles them itself, while modules are imported for seconds.

The first process of a container or namespace has no default actions: a signal that nobody handles is lost, and
``docker stop`` waits for ten seconds and kills.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Final

_FIRST_PROCESS: Final = 1


def handle_early(command: str) -> None:
    """Handles signals from now on, until the command has handlers of its own.

    The server ends with 0, as while it loads models. Other commands end by SIGTERM as they do outside of containers.

    Args:
        command: Name of the command.
    """
    if command == "serve":
        signal.signal(signal.SIGTERM, _end_server)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # background jobs of a shell ignore it
            signal.signal(signal.SIGINT, _end_server)
    elif os.getpid() == _FIRST_PROCESS:
        signal.signal(signal.SIGTERM, _unwind)


def _end_server(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"mnserve: stopped before the models were loaded\n")
    os._exit(0)


def _unwind(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
