"""HTTP that answers with metrics: bursts of connections are taken at once, and none is kept for nothing."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from socketserver import TCPServer, ThreadingMixIn
from typing import IO, TYPE_CHECKING, Any, Final, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
"""Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn)."""
_MAX_CONNECTIONS: Final = 64
"""Connections that are looked after at a time, each by a thread; others wait to be accepted."""
_REQUEST_SECONDS: Final = 2.0
"""Within how long the whole of a request has to be there, however busily it is sent."""
_GRACE_SECONDS: Final = 0.2
"""How long a request may take where others wait; a scrape says it all at once."""
_IDLE_SECONDS: Final = 10.0
"""How long a caller may take nothing of its answer before the connection is closed."""
_MAX_CONNECTION_SECONDS: Final = 30.0
"""How long a connection may last, however much it says."""
_LOOK_SECONDS: Final = 0.05
_MAX_LINE: Final = 65_536


class _Answer(ServerHandler):
    """One answer, whose faults go to the log and not to standard error."""

    def log_exception(self, exc_info: Any) -> None:
        _log_fault(exc_info[1])


class _Handler(WSGIRequestHandler):
    """The one request of a connection, without a line in the log."""

    server: MetricsHTTPServer

    def setup(self) -> None:
        self.request.settimeout(self.server.idle_seconds)
        super().setup()

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline(_MAX_LINE + 1)
        if len(self.raw_requestline) > _MAX_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
        elif self.parse_request():
            files = cast("tuple[IO[bytes], IO[bytes]]", (self.rfile, self.wfile))
            answer = _Answer(*files, self.get_stderr(), self.get_environ(), multithread=True)
            answer.request_handler = self  # type: ignore[attr-defined]  # wsgiref asks it to log, which it does not
            answer.run(cast("WSGIApplication", self.server.get_app()))

    def parse_request(self) -> bool:
        return super().parse_request() and self.server.has_asked(self.request)

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        pass


class MetricsHTTPServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection, of which there is a bounded number.

    The server of the standard library lets five connections wait, so that the system drops most of a burst, and its
    callers try again after a second, then two, then four; and whoever says nothing keeps a thread for ever. Here the
    oldest connection that has not asked yet gives way where all threads are taken.

    Args:
        family: ``socket.AF_INET`` or ``AF_INET6``.
        address: host and port to bind.
        most: connections at a time.
        request_seconds: how long one may take to send its request.
        grace_seconds: how long it may take for that where others wait.
        idle_seconds: how long one may take nothing of its answer.
        longest_seconds: how long one may last.

    Raises:
        OSError: the port cannot be bound.
    """

    daemon_threads = True
    request_queue_size = _BACKLOG

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[str, int],
        *,
        most: int = _MAX_CONNECTIONS,
        request_seconds: float = _REQUEST_SECONDS,
        grace_seconds: float = _GRACE_SECONDS,
        idle_seconds: float = _IDLE_SECONDS,
        longest_seconds: float = _MAX_CONNECTION_SECONDS,
    ) -> None:
        self.address_family = family
        self.idle_seconds = idle_seconds
        self._request_seconds = request_seconds
        self._grace = grace_seconds
        self._longest = longest_seconds
        self._free = threading.BoundedSemaphore(most)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._began: dict[Any, float] = {}
        self._asking: dict[Any, float] = {}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Binds, without asking a name server for the name of this host."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection a thread as soon as one is free."""
        while not self._free.acquire(blocking=False):
            if self._closing.is_set():
                self.shutdown_request(request)
                return
            self.service_actions()
            self._make_room()
            if self._free.acquire(timeout=_LOOK_SECONDS):
                break
        with self._lock:
            self._began[request] = self._asking[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._ended(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Looks after one connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ended(request)

    def has_asked(self, request: Any) -> bool:
        """Notes that the whole request of a connection is there; False where it came too late."""
        with self._lock:
            return self._asking.pop(request, None) is not None

    def service_actions(self) -> None:
        """Ends connections that take too long, however busy they look."""
        now = time.monotonic()
        with self._lock:
            slow = [request for request, began in self._asking.items() if now - began > self._request_seconds]
            for request in slow:
                del self._asking[request]
            long = [request for request, began in self._began.items() if now - began > self._longest]
            for request in {*slow, *long}:
                _shut(request)

    def _make_room(self) -> None:
        """Ends the oldest connection that has not asked, unless it has only just come."""
        with self._lock:
            oldest, began = next(iter(self._asking.items()), (None, 0.0))
            if oldest is not None and time.monotonic() - began > self._grace:
                del self._asking[oldest]
                _shut(oldest)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that left or fell silent is nobody's fault; all else is told the log."""
        _log_fault(sys.exception())

    def shutdown(self) -> None:
        """Ends the loop that accepts."""
        self._closing.set()
        super().shutdown()

    def server_close(self) -> None:
        """Frees the port and ends the connections that are left."""
        super().server_close()
        with self._lock:
            for request in self._began:
                _shut(request)

    def _ended(self, request: Any) -> None:
        with self._lock:
            self._began.pop(request, None)
            self._asking.pop(request, None)
        self._free.release()


def _shut(connection: Any) -> None:
    with contextlib.suppress(OSError):  # it ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _log_fault(fault: BaseException | None) -> None:
    if not isinstance(fault, OSError):
        _log.error("metrics could not be answered", exc_info=fault)
