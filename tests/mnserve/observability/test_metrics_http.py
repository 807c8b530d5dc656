"""Connections of the metrics port: none keeps it from others, all end with the server, faults go to the log."""

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

from mnserve.observability.metrics_http import MetricsHTTPServer

PATIENCE = 30
"""Seconds within which anything is answered on a machine with other work."""


def here(_: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"here"]


@contextlib.contextmanager
def two_at_a_time(app: Any = here, **seconds: float) -> Iterator[int]:
    """The port of a server that looks after two connections at a time."""
    server = MetricsHTTPServer(socket.AF_INET, ("127.0.0.1", 0), most=2, **seconds)
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        stopping = threading.Thread(target=server.shutdown, daemon=True)
        stopping.start()
        stopping.join(PATIENCE)
        assert not stopping.is_alive()
        server.server_close()
        thread.join()


def asked(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
        return bytes(response.read())


FOR_EVER = {"request_seconds": 1000.0, "grace_seconds": 1000.0, "idle_seconds": 1000.0, "longest_seconds": 1000.0}


def test_connections_that_say_nothing_give_way(capsys: pytest.CaptureFixture[str]) -> None:
    with two_at_a_time(request_seconds=0.3, grace_seconds=1000.0, longest_seconds=1000.0) as port:
        silent = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(8)]
        assert asked(port) == b"here"
        for connection in silent:
            assert connection.recv(1) == b""  # it was closed
            connection.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("limit", ["request_seconds", "grace_seconds", "longest_seconds"])
def test_connections_that_never_come_to_an_end_give_way(limit: str) -> None:
    """Each says a little now and then, so that none is ever silent for long."""
    with two_at_a_time(**FOR_EVER | {limit: 0.5}) as port:
        endless = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(2)]
        for connection in endless:
            connection.sendall(b"GET /")
        stop = threading.Event()

        def go_on() -> None:
            while not stop.wait(0.1):
                for connection in endless:
                    with contextlib.suppress(OSError):
                        connection.sendall(b"a")

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            assert asked(port) == b"here"
        finally:
            stop.set()
            thread.join()
            for connection in endless:
                connection.close()


def test_a_request_that_takes_too_long_is_ended_though_nobody_waits() -> None:
    with (
        two_at_a_time(**FOR_EVER | {"request_seconds": 0.3}) as port,
        socket.create_connection(("127.0.0.1", port), PATIENCE) as slow,
    ):
        slow.sendall(b"GET /metrics HTTP/1.0\r\nAccept: ")
        assert slow.recv(1) == b""


def test_a_queue_of_silent_connections_is_passed_in_seconds() -> None:
    """The deadlines of one wave after the other would add up to minutes."""
    with two_at_a_time(grace_seconds=0.02) as port:
        silent = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(100)]
        began = time.monotonic()
        assert asked(port) == b"here"
        assert time.monotonic() - began < 15
        for connection in silent:
            connection.close()


def test_stopping_does_not_wait_for_a_free_thread() -> None:
    """One connection more than are looked after, none of which ever ends, so that the server is about to take it."""
    with contextlib.ExitStack() as stack:
        with two_at_a_time(**FOR_EVER) as port:
            connections = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)) for _ in range(3)
            ]
            time.sleep(0.5)
        for connection in connections:  # each ended with the server
            assert connection.recv(1) == b""


def test_a_connection_whose_thread_cannot_start_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_at_a_time(**FOR_EVER) as port:
        with monkeypatch.context() as without:
            without.setattr("socketserver.ThreadingMixIn.process_request", no_thread)
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
                    assert connection.recv(1) == b""
        assert asked(port) == b"here"


def no_thread(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(("fault", "lines"), [(ValueError("broken"), 1), (TimeoutError("left"), 0)])
def test_faults_are_told_the_log_and_callers_that_left_are_not(
    fault: Exception, lines: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def app(_: Any, start_response: Any) -> list[bytes]:
        raise fault

    with two_at_a_time(app) as port, pytest.raises(urllib.error.HTTPError, match="500"):
        asked(port)
    found = [(record.name, record.levelno, record.getMessage()) for record in caplog.records]
    assert found == [("mnserve.observability.metrics_http", logging.ERROR, "metrics could not be answered")] * lines
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("fault", "lines"), [(ValueError("broken"), 1), (ConnectionResetError("left"), 0)])
def test_faults_outside_of_an_answer_are_told_apart_as_well(
    fault: Exception, lines: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: MetricsHTTPServer, request: Any) -> bool:
        raise fault

    monkeypatch.setattr(MetricsHTTPServer, "has_asked", broken)
    with two_at_a_time() as port, pytest.raises(ConnectionResetError):
        asked(port)
    assert [record.getMessage() for record in caplog.records] == ["metrics could not be answered"] * lines
