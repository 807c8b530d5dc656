"""Control messages between the supervisor and its processes: JSON, and open files, over a pair of sockets.

Each message is a length of four bytes, little-endian, and so many bytes of JSON. Its field ``fds`` counts the open
files that come with it, in order. Nothing here is on the path of an inference request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias

Message: TypeAlias = dict[str, Any]
OnMessage: TypeAlias = Callable[[Message, list[int]], None]
"""Takes a message and its open files, which belong to it then."""

_log = logging.getLogger(__name__)

_LENGTH: Final = Struct("<I")
_READ_BYTES: Final = 2**18
_MAX_MESSAGE: Final = 2**28
"""Longest message in bytes; a longer length is a damaged one."""
_MAX_FDS: Final = 64


class ControlChannel:
    """One end of the control socket between two processes, on the running event loop.

    Args:
        sock: Connected stream socket; it is closed with the channel.
        on_message: Takes each message.
        on_closed: Called once, when the other side has ended, or has sent what is no message.
    """

    def __init__(self, sock: socket.socket, on_message: OnMessage, on_closed: Callable[[], None]) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._on_message, self._on_closed = on_message, on_closed
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._fds: deque[int] = deque()
        self._unsent: deque[tuple[memoryview, Sequence[int]]] = deque()
        self.closed = False
        """True once it has ended; what is sent then is dropped."""
        self._loop.add_reader(sock, self._read)

    def send(self, kind: str, fds: Sequence[int] = (), **fields: Any) -> None:
        """Sends a message at once, as far as the socket takes it.

        Args:
            kind: Kind of the message, its field ``kind``.
            fds: Open files for the other side; the caller may close them after this.
            fields: Further fields, values of JSON.
        """
        if self.closed:
            return
        text = json.dumps({"kind": kind, "fds": len(fds), **fields}, separators=(",", ":")).encode()
        data = memoryview(_LENGTH.pack(len(text)) + text)
        if self._unsent:
            self._unsent.append((data, _Copies(map(os.dup, fds))))
        else:
            self._unsent.append((data, fds))
            self._write()

    def close(self) -> None:
        """Ends the channel without a call of ``on_closed``."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for fd in self._fds:
            os.close(fd)
        for _, fds in self._unsent:
            _close_copies(fds)

    def _write(self) -> None:
        while self._unsent:
            data, fds = self._unsent[0]
            try:
                sent = socket.send_fds(self._socket, [data], list(fds)) if fds else self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                if not isinstance(fds, _Copies):
                    self._unsent[0] = (data, _Copies(map(os.dup, fds)))
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                self._end()
                return
            _close_copies(fds)
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = (data[sent:], ())
        self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _READ_BYTES, _MAX_FDS, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, fds = b"", []
        self._fds.extend(fds)
        self._received += data
        if not data or not self._deliver():
            self._end()

    def _deliver(self) -> bool:
        """Delivers every whole message; False where one is damaged."""
        start = 0
        while not self.closed and len(self._received) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received, start)
            end = start + _LENGTH.size + length
            if length > _MAX_MESSAGE:
                _log.error("a control message between processes has a length of %d bytes and is damaged", length)
                return False
            if len(self._received) < end:
                break
            message = json.loads(self._received[start + _LENGTH.size : end])
            start = end
            if len(self._fds) < message["fds"]:  # the kernel drops those that this process has no room for
                _log.error(
                    "the control message '%s' came without its open files: this process has too many; raise the limit "
                    "of open files (ulimit -n)",
                    message["kind"],
                )
                return False
            fds = [self._fds.popleft() for _ in range(message["fds"])]
            try:
                self._on_message(message, fds)
            except Exception:  # noqa: BLE001 (logged; the other side may be as healthy as before)
                _log.exception("the control message '%s' met a fault of this program", message["kind"])
        del self._received[:start]
        return True

    def _end(self) -> None:
        if not self.closed:
            self.close()
            self._on_closed()


class _Copies(tuple[int, ...]):
    """Copies of open files, to be closed once they are sent."""


def _close_copies(fds: Sequence[int]) -> None:
    if isinstance(fds, _Copies):
        for fd in fds:
            os.close(fd)
