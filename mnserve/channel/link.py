"""One end of a link: records over a connected socket, on the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Final

from mnserve.channel.records import DamagedRecordsError, OnRecord, RecordReader

_log = logging.getLogger(__name__)

_GATHER_SECONDS: Final = 0.0005
"""Longest time that records wait for others to leave with; an idle loop may take a millisecond."""
READ_BYTES: Final = 2**18
"""Bytes that are read in one turn of the loop."""


class Link:
    """Sends and receives records.

    What is sent within one turn of the loop leaves together. A link ends when the other side ends, when its records
    are damaged, or by :meth:`close`.

    Args:
        sock: Connected stream socket; it is closed with the link.
        on_record: Takes each record; see ``mnserve.channel.records``.
        on_closed: Called once, with the reason as a clause, when the link has ended.
    """

    def __init__(self, sock: socket.socket, on_record: OnRecord, on_closed: Callable[[str], None]) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._records = RecordReader(on_record)
        self._read_buffer = bytearray(READ_BYTES)
        self._read_view = memoryview(self._read_buffer)
        self._out: list[bytes] = []
        self._unsent = memoryview(b"")
        self._flush_is_due = False
        self._gathering: asyncio.TimerHandle | None = None
        self.gather = 1
        """Records that leave together if that takes less than a millisecond, as each departure wakes the other side."""
        self.closed = False
        """True once it has ended; what is sent then is dropped."""
        self._loop.add_reader(sock, self._read)

    def send(self, record: bytes) -> None:
        """Sends a record, at the end of this turn of the loop, or a moment later with others."""
        if self.closed:
            return
        self._out.append(record)
        if not self._flush_is_due:
            self._flush_is_due = True
            if self.gather > 1:
                self._gathering = self._loop.call_later(_GATHER_SECONDS, self._flush)
            else:
                self._loop.call_soon(self._flush)
        elif self._gathering is not None and len(self._out) >= self.gather:
            self._gathering.cancel()
            self._gathering = None
            self._loop.call_soon(self._flush)

    def close(self, reason: str = "it was closed") -> None:
        """Ends the link, after one attempt to send what is left."""
        if self.closed:
            return
        if self._flush_is_due:
            with contextlib.suppress(OSError):
                self._send_some()
        self.closed = True
        if self._gathering is not None:
            self._gathering.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._out.clear()
        self._on_closed(reason)

    def _flush(self) -> None:
        self._gathering = None
        if self.closed:
            return
        try:
            sent = self._send_some()
        except OSError as error:
            self.close(f"sending failed ({error.strerror or error})")
            return
        if sent:
            self._flush_is_due = False

    def _flush_more(self) -> None:
        self._loop.remove_writer(self._socket)
        self._flush()

    def _send_some(self) -> bool:
        """Sends what the socket takes; has the loop call again for the rest.

        Returns:
            True if all is sent.
        """
        while self._unsent or self._out:
            if not self._unsent:
                self._unsent = memoryview(self._out[0] if len(self._out) == 1 else b"".join(self._out))
                self._out.clear()
            try:
                count = self._socket.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._socket, self._flush_more)
                return False
            self._unsent = self._unsent[count:]
        return True

    def _read(self) -> None:
        try:
            count = self._socket.recv_into(self._read_buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"receiving failed ({error.strerror or error})")
            return
        if not count:
            self.close("the other side has ended")
            return
        try:
            self._records.feed(bytes(self._read_view[:count]))
        except DamagedRecordsError as error:
            _log.error("a link between processes ended: %s", error)
            self.close(f"its records are damaged ({error})")
        except Exception as error:  # noqa: BLE001 (no caller of the loop would hear of it)
            _log.exception("a link between processes ended by a fault of this program")
            self.close(f"this side has a fault ({type(error).__name__}: {error})")
