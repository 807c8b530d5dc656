"""Connections of the metrics port: none blocks others, all end with the server, errors go to the log."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from mnserve.observability.metrics_http import HTTPLimits, MetricsHTTPServer

TIMEOUT = 30
"""Seconds within which a server answers on a busy machine."""


def answering(_: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"metrics"]


@contextlib.contextmanager
def two_at_a_time(app: Any = answering, poll_seconds: float = 0.5, **seconds: float) -> Iterator[int]:
    """The port of a server that handles two connections at a time."""
    server = MetricsHTTPServer(socket.AF_INET, ("127.0.0.1", 0), limits=HTTPLimits(connections=2, **seconds))
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, args=(poll_seconds,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        stopping = threading.Thread(target=server.shutdown, daemon=True)
        stopping.start()
        stopping.join(TIMEOUT)
        assert not stopping.is_alive()
        server.server_close()
        thread.join()


def scrape(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT) as response:
        return bytes(response.read())


FOR_EVER = {"request_seconds": 1000.0, "grace_seconds": 1000.0, "idle_seconds": 1000.0, "connection_seconds": 1000.0}


def test_silent_connections_are_closed(capsys: pytest.CaptureFixture[str]) -> None:
    with two_at_a_time(request_seconds=0.3, grace_seconds=1000.0, connection_seconds=1000.0) as port:
        silent = [socket.create_connection(("127.0.0.1", port), TIMEOUT) for _ in range(8)]
        assert scrape(port) == b"metrics"
        for connection in silent:
            assert connection.recv(1) == b""
            connection.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("limit", ["request_seconds", "grace_seconds", "connection_seconds"])
def test_endless_requests_are_cut_off(limit: str) -> None:
    """Each connection sends a byte now and then, so that none is silent for long."""
    with two_at_a_time(**FOR_EVER | {limit: 0.5}) as port:
        endless = [socket.create_connection(("127.0.0.1", port), TIMEOUT) for _ in range(2)]
        for connection in endless:
            connection.sendall(b"GET /")
        stop = threading.Event()

        def send_on() -> None:
            while not stop.wait(0.1):
                for connection in endless:
                    with contextlib.suppress(OSError):
                        connection.sendall(b"a")

        thread = threading.Thread(target=send_on)
        thread.start()
        try:
            assert scrape(port) == b"metrics"
        finally:
            stop.set()
            thread.join()
            for connection in endless:
                connection.close()


def test_a_slow_request_is_cut_off_even_with_free_threads() -> None:
    with (
        two_at_a_time(**FOR_EVER | {"request_seconds": 0.3}) as port,
        socket.create_connection(("127.0.0.1", port), TIMEOUT) as slow,
    ):
        slow.sendall(b"GET /metrics HTTP/1.0\r\nAccept: ")
        assert slow.recv(1) == b""


def test_a_queue_of_silent_connections_delays_an_answer_by_seconds_only() -> None:
    """The time limits of one wave after the other would add up to minutes."""
    with two_at_a_time(grace_seconds=0.02) as port:
        silent = [socket.create_connection(("127.0.0.1", port), TIMEOUT) for _ in range(50)]
        began = time.monotonic()
        assert scrape(port) == b"metrics"
        assert time.monotonic() - began < 15
        for connection in silent:
            connection.close()


def test_stopping_does_not_wait_for_a_free_thread() -> None:
    """There is one endless connection more than threads, so the server is about to accept it."""
    with contextlib.ExitStack() as stack:
        with two_at_a_time(**FOR_EVER) as port:
            connections = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT)) for _ in range(3)
            ]
            time.sleep(0.5)
        for connection in connections:  # closed with the server
            assert connection.recv(1) == b""


def test_stopping_does_not_wait_for_the_next_look_at_the_limits() -> None:
    with two_at_a_time(poll_seconds=1000.0) as port:
        assert scrape(port) == b"metrics"


def test_a_connection_whose_thread_cannot_start_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_at_a_time(**FOR_EVER) as port:
        with monkeypatch.context() as without:
            without.setattr("socketserver.ThreadingMixIn.process_request", no_thread)
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
                    assert connection.recv(1) == b""
        assert scrape(port) == b"metrics"


def no_thread(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(("fault", "lines"), [(ValueError("broken"), 1), (TimeoutError("left"), 0)])
def test_errors_are_logged_and_clients_that_left_are_not(
    fault: Exception, lines: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def app(_: Any, start_response: Any) -> list[bytes]:
        raise fault

    with two_at_a_time(app) as port, pytest.raises(urllib.error.HTTPError, match="500"):
        scrape(port)
    found = [(record.name, record.levelno, record.getMessage()) for record in caplog.records]
    assert found == [("mnserve.observability.metrics_http", logging.ERROR, "metrics could not be answered")] * lines
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("fault", "lines"), [(ValueError("broken"), 1), (ConnectionResetError("left"), 0)])
def test_errors_outside_of_an_answer_are_logged_and_clients_that_left_are_not(
    fault: Exception, lines: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: MetricsHTTPServer, request: Any) -> bool:
        raise fault

    monkeypatch.setattr(MetricsHTTPServer, "request_arrived", broken)
    with two_at_a_time() as port, pytest.raises(ConnectionResetError):
        scrape(port)
    assert [record.getMessage() for record in caplog.records] == ["metrics could not be answered"] * lines
