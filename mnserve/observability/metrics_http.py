"""HTTP server of the metrics: it accepts bursts of connections, and closes silent ones."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import IO, TYPE_CHECKING, Any, Final, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
"""Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn)."""
_POLL_SECONDS: Final = 0.05
_MAX_LINE: Final = 65_536
_MAX_BODY: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class HTTPLimits:
    """Limits of the connections.

    Attributes:
        connections: Connections at a time, each with a thread; others wait to be accepted.
        request_seconds: Time to send the whole request.
        grace_seconds: Time to send the request while other connections wait; a scraper sends it at once.
        idle_seconds: Time in which a client may read nothing of its answer.
        connection_seconds: Age at which a connection is closed in any case.
    """

    connections: int = 64
    request_seconds: float = 2.0
    grace_seconds: float = 0.2
    idle_seconds: float = 10.0
    connection_seconds: float = 30.0


class _AnswerHandler(ServerHandler):
    """Writes one answer; errors go to the log and not to standard error."""

    def log_exception(self, exc_info: Any) -> None:
        _log_unexpected(exc_info[1])


class _Handler(WSGIRequestHandler):
    """Handles the one request of a connection, without a line in the log."""

    server: MetricsHTTPServer

    def setup(self) -> None:
        self.request.settimeout(self.server.limits.idle_seconds)
        super().setup()

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline(_MAX_LINE + 1)
        if len(self.raw_requestline) > _MAX_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
        elif self.parse_request():
            self._take_body()
            files = cast("tuple[IO[bytes], IO[bytes]]", (self.rfile, self.wfile))
            answer = _AnswerHandler(*files, self.get_stderr(), self.get_environ(), multithread=True)
            answer.request_handler = self  # type: ignore[attr-defined]  # wsgiref calls its log_message, which is empty
            answer.run(cast("WSGIApplication", self.server.get_app()))

    def _take_body(self) -> None:
        """Reads the body that came with a request: closing a connection over unread bytes would cut off the answer."""
        if self.headers.get("Content-Length", "0") == "0":
            return
        self.request.settimeout(self.server.limits.grace_seconds)
        with contextlib.suppress(OSError):
            self.rfile.read1(_MAX_BODY)
        self.request.settimeout(self.server.limits.idle_seconds)

    def parse_request(self) -> bool:
        return super().parse_request() and self.server.request_arrived(self.request)

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        pass


class MetricsHTTPServer(ThreadingMixIn, WSGIServer):
    """HTTP server with a thread for each connection, and a bounded number of connections.

    The server of the standard library lets five connections wait. The system drops the others of a burst, and their
    clients try again after 1, 2 and 4 seconds. A silent client keeps its thread for ever. Here the oldest connection
    without a request is closed when all threads are busy.

    Args:
        family: ``socket.AF_INET`` or ``AF_INET6``.
        address: Address to bind, as the module ``socket`` takes it.
        limits: Limits of the connections; None for the defaults.

    Raises:
        OSError: The port cannot be bound.
    """

    daemon_threads = True
    request_queue_size = _BACKLOG

    def __init__(
        self,
        family: socket.AddressFamily,
        address: tuple[Any, ...],
        *,
        limits: HTTPLimits | None = None,
    ) -> None:
        self.address_family = family
        self.limits = HTTPLimits() if limits is None else limits
        self._free_threads = threading.BoundedSemaphore(self.limits.connections)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._accepted_at: dict[Any, float] = {}  # every connection -> monotonic seconds
        self._without_request: dict[Any, float] = {}  # those that have not sent their request yet
        super().__init__(cast("tuple[str, int]", address), _Handler)

    def server_bind(self) -> None:
        """Binds the port without asking a name server for the name of this host."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection a thread as soon as one is free."""
        while not self._free_threads.acquire(blocking=False):
            if self._closing.is_set():
                self.shutdown_request(request)
                return
            self.service_actions()
            self._close_oldest()
            if self._free_threads.acquire(timeout=_POLL_SECONDS):
                break
        with self._lock:
            self._accepted_at[request] = self._without_request[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._ended(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles one connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ended(request)

    def request_arrived(self, request: Any) -> bool:
        """Notes that a connection has sent its whole request; False if it came too late."""
        with self._lock:
            return self._without_request.pop(request, None) is not None

    def service_actions(self) -> None:
        """Closes connections that take too long, even active ones."""
        now = time.monotonic()
        with self._lock:
            slow = [
                request
                for request, accepted_at in self._without_request.items()
                if now - accepted_at > self.limits.request_seconds
            ]
            for request in slow:
                del self._without_request[request]
            old = [
                request
                for request, accepted_at in self._accepted_at.items()
                if now - accepted_at > self.limits.connection_seconds
            ]
            for request in {*slow, *old}:
                _shut_down(request)

    def _close_oldest(self) -> None:
        """Closes the oldest connection without a request, unless it has only just been accepted."""
        with self._lock:
            oldest, accepted_at = next(iter(self._without_request.items()), (None, 0.0))
            if oldest is not None and time.monotonic() - accepted_at > self.limits.grace_seconds:
                del self._without_request[oldest]
                _shut_down(oldest)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs the current error, unless the client left or fell silent."""
        _log_unexpected(sys.exception())

    def shutdown(self) -> None:
        """Ends the loop that accepts connections."""
        self._closing.set()
        with contextlib.suppress(OSError):  # a system that refuses it: the loop sees the end at its next look
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the loop, which looks twice a second
        super().shutdown()

    def server_close(self) -> None:
        """Frees the port and closes the remaining connections."""
        super().server_close()
        with self._lock:
            for request in self._accepted_at:
                _shut_down(request)

    def _ended(self, request: Any) -> None:
        with self._lock:
            self._accepted_at.pop(request, None)
            self._without_request.pop(request, None)
        self._free_threads.release()


def _shut_down(connection: Any) -> None:
    with contextlib.suppress(OSError):  # the connection ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


def _log_unexpected(error: BaseException | None) -> None:
    if not isinstance(error, OSError):
        _log.error("metrics could not be answered", exc_info=error)
