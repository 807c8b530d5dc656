"""A process of the server, as the supervisor has it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from mnserve.processes.control import ControlChannel, Message

_BLOCKED: Final = (signal.SIGTERM, signal.SIGINT)
"""Signals that are meant for the supervisor: a terminal and a service manager send them to every process of a group."""
_RUN: Final = """\
import os, runpy, sys
sys.path[:] = sys.argv.pop().split(os.pathsep)
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""
"""Runs a module where this process finds it. PYTHONPATH would stand before the standard library, and with it the folder
that the server was started in, where a file may have the name of a module."""


class Child:
    """A process that was started and is watched. It ends with the supervisor, however that ends.

    Args:
        module: Module that the process runs, which calls :func:`mnserve.processes.child_side.supervised`.
        name: Its name, for the log.
        on_message: Takes each message of the process and its open files.
        on_death: Called once, with its exit code, when the process has ended without :meth:`kill`; negative is
            a signal.

    Raises:
        OSError: The system starts no process, or this one may have no more open files.
    """

    def __init__(
        self,
        module: str,
        name: str,
        on_message: Callable[[Message, list[int]], None],
        on_death: Callable[[int], None],
    ) -> None:
        self.name = name
        self._on_death = on_death
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.ExitStack() as stack:
            stack.callback(ours.close)
            with theirs, _signals_blocked():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _RUN, module, str(theirs.fileno()), str(os.getpid()), _places()],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                )
            stack.pop_all()
        self._channel = ControlChannel(ours, on_message, self._lost)
        self._ended = asyncio.Event()
        self._reaping: asyncio.Task[None] | None = None
        self._expected = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until its end was noticed."""
        return not self._ended.is_set()

    @property
    def connected(self) -> bool:
        """True until it has closed its socket, which is the beginning of its end."""
        return not self._channel.closed

    def send(self, kind: str, fds: tuple[int, ...] = (), **fields: Any) -> None:
        """Sends a message; see :meth:`ControlChannel.send`."""
        self._channel.send(kind, fds, **fields)

    def kill(self, *, expected: bool = True) -> None:
        """Ends the process at once.

        Args:
            expected: Take its end for what was asked for, so that it is no death.
        """
        self._expected = self._expected or expected
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self, timeout: float | None = None) -> bool:
        """Waits for the end of the process.

        Args:
            timeout: Most seconds to wait; None for no limit.

        Returns:
            True if it has ended.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), timeout)
        return self._ended.is_set()

    def _lost(self) -> None:
        """Ends what has closed its socket, most likely since it has ended: nothing may go on beside a new process."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._reaping = asyncio.get_running_loop().create_task(self._reap())

    async def _reap(self) -> None:
        """Waits for the last moments of the process, which may have gigabytes to give back."""
        code = await asyncio.to_thread(self._process.wait)
        self._ended.set()
        if not self._expected:
            self._on_death(code)


def _places() -> str:
    """Lists where this process looks for modules."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Blocks signals for a process that is started meanwhile, from its first moment on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
