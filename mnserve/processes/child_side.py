"""The side of a process that the supervisor has started: its control socket, and its end with the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from mnserve.processes.control import ControlChannel, Message, OnMessage

_PR_SET_PDEATHSIG: Final = 1


class Supervision:
    """Control socket of this process to the supervisor.

    Args:
        sock: The socket.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._channel: ControlChannel | None = None
        self._ended = asyncio.Event()

    def open(self, on_message: OnMessage) -> None:
        """Begins to take messages, on the running event loop. The end of the supervisor ends this process."""

        def take(message: Message, fds: list[int]) -> None:
            if message["kind"] == "end":
                self._ended.set()
            else:
                on_message(message, fds)

        self._channel = ControlChannel(self._socket, take, lambda: os._exit(1))

    async def ended(self) -> int:
        """Waits for the end that the supervisor asks for; returns the exit code."""
        await self._ended.wait()
        return 0

    def send(self, kind: str, **fields: Any) -> None:
        """Sends a message; see :meth:`ControlChannel.send`."""
        assert self._channel is not None
        self._channel.send(kind, **fields)


def supervised(main: Callable[[Supervision], Coroutine[Any, Any, int]]) -> None:
    """Runs a process of the supervisor, and ends it without the clean-up of the interpreter.

    Engines that hang, and threads of gRPC, would hold that up or abort it.

    Args:
        main: Runs on an event loop; returns the exit code.
    """
    handle, supervisor = int(sys.argv[1]), int(sys.argv[2])
    _end_with_supervisor(supervisor)
    code = asyncio.run(main(Supervision(socket.socket(fileno=handle))))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_with_supervisor(supervisor: int) -> None:
    """Has the kernel kill this process once the supervisor is gone, also while it is stuck in native code."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)
