"""Metrics over HTTP: the answer, and the port of their own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final

from mnserve.access.addresses import join_address
from mnserve.access.refused_calls import RefusedCalls
from mnserve.errors import StartError
from mnserve.http.answers import HttpAnswer
from mnserve.http.compression import compressed
from mnserve.http.headers import header_of
from mnserve.http.listening.limits import ConnectionLimits
from mnserve.http.listening.listener import HttpListener
from mnserve.http.listening.sockets import bind_port
from mnserve.models.statistics import ModelCounters
from mnserve.observability.metrics import MetricsPage

_log = logging.getLogger(__name__)

METHODS: Final = b"GET, HEAD, OPTIONS"
_TEXT: Final = b"text/plain; charset=utf-8"
_LIMITS: Final = ConnectionLimits(
    connections=1024,
    head_bytes=65_536,
    head_seconds=2.0,
    idle_seconds=10.0,
    answer_seconds=30.0,
    keep_alive_seconds=30.0,
    grace_seconds=0.2,
    age_seconds=30.0,
)
"""A scraper sends its request at once, and reads its answer."""
_LAST_ANSWERS: Final = 1.0
_FAILURE: Final = "cannot serve metrics on {}: {}; choose another --metrics-port"


class MetricsServer:
    """Serves ``/metrics`` on every address of a host, from an event loop and a thread of its own.

    So metrics are read also while the event loop of the calls is busy.

    Args:
        host: Host to bind; ``localhost`` is both loopback addresses.
        port: Port to bind; 0 takes a free one.
        counters: Returns the counters of the loaded models; called in the thread.
        refused: Counts the calls that no model was asked for.
        limits: Limits of the connections.

    Raises:
        StartError: The port cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        counters: Callable[[], Iterable[ModelCounters]],
        refused: RefusedCalls | None = None,
        limits: ConnectionLimits = _LIMITS,
    ) -> None:
        self.page = MetricsPage(counters, refused)
        """Text of the metrics."""
        sockets = bind_port(host, port, _FAILURE)
        self._listener = HttpListener(self._answer, sockets, limits)
        self.port: int = self._listener.port
        self._running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()
        try:
            self._running.result()
        except OSError as error:
            for one in sockets:
                one.close()
            raise StartError(_FAILURE.format(join_address(host, self.port), error.strerror or error)) from error

    def close(self) -> None:
        """Stops serving and frees the port; once more does nothing."""
        loop, stop = self._running.result()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if self._running.done():
                raise
            self._running.set_exception(error)

    async def _serve(self) -> None:
        stop = asyncio.Event()
        self._listener.start()
        self._running.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        await self._listener.close(_LAST_ANSWERS)

    async def _answer(self, scope: Any, _receive: Any, send: Any) -> None:
        """Answers a request, whatever its path."""
        method = scope["method"]
        if method not in ("GET", "HEAD"):
            allowed = method == "OPTIONS"
            body = b"" if allowed else b"metrics are read with " + METHODS + b"\n"
            await HttpAnswer(body, _TEXT, 200 if allowed else 405, ((b"allow", METHODS),)).send(send)
            return
        try:
            answer = compressed(metrics_answer(*self.page.render(header_of(scope, b"accept") or "")), scope)
        except Exception:  # noqa: BLE001 (becomes an answer)
            _log.exception("metrics could not be answered")
            answer = HttpAnswer(b"the metrics could not be read; the server's log has the reason\n", _TEXT, 500)
        await answer.send(send)


def metrics_answer(text: bytes, media_type: str) -> HttpAnswer:
    """Returns metrics as an answer."""
    return HttpAnswer(text, media_type.encode())
