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

from mnserve.http.listening.limits import ConnectionLimits
from mnserve.http.metrics import MetricsServer

TIMEOUT = 30
"""Seconds within which a server answers on a busy machine."""
FOR_EVER = {
    "head_seconds": 1000.0,
    "grace_seconds": 1000.0,
    "idle_seconds": 1000.0,
    "keep_alive_seconds": 1000.0,
    "age_seconds": 1000.0,
}


@contextlib.contextmanager
def two_at_a_time(**limits: Any) -> Iterator[int]:
    """The port of a server that has two connections at a time."""
    server = MetricsServer("127.0.0.1", 0, list, limits=ConnectionLimits(connections=2, **limits))
    try:
        yield server.port
    finally:
        stopping = threading.Thread(target=server.close, daemon=True)
        stopping.start()
        stopping.join(TIMEOUT)
        assert not stopping.is_alive()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT)


def scrape(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT) as response:
        return bytes(response.read())


def ended(connection: socket.socket) -> bool:
    """True once the server has closed a connection, with an answer or without one."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass
    return True


def test_silent_connections_are_closed(capfd: pytest.CaptureFixture[str]) -> None:
    with two_at_a_time(**FOR_EVER | {"head_seconds": 0.3}) as port:
        silent = [connect(port) for _ in range(8)]
        assert b"nv_" in scrape(port)
        for connection in silent:
            assert ended(connection)
            connection.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("limit", ["head_seconds", "grace_seconds"])
def test_endless_requests_are_cut_off(limit: str) -> None:
    """Each connection sends a byte now and then, so that none is silent for long."""
    with two_at_a_time(**FOR_EVER | {limit: 0.5}) as port:
        endless = [connect(port) for _ in range(2)]
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
            assert b"nv_" in scrape(port)
        finally:
            stop.set()
            thread.join()
            for connection in endless:
                connection.close()


def test_a_slow_request_is_cut_off_with_a_reason_even_where_there_is_room() -> None:
    with two_at_a_time(**FOR_EVER | {"head_seconds": 0.3}) as port, connect(port) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\nAccept: ")
        answer = slow.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b'{"error":"the head of the request was not there after 0.3 s"}')


def test_a_connection_that_waits_for_its_next_request_gives_its_place_to_others() -> None:
    with two_at_a_time(**FOR_EVER | {"grace_seconds": 0.1}) as port:
        kept = [connect(port) for _ in range(2)]
        for connection in kept:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert b"nv_" in scrape(port)
        assert ended(kept[0])
        for connection in kept:
            connection.close()


def test_a_connection_ends_at_its_age() -> None:
    with two_at_a_time(**FOR_EVER | {"age_seconds": 0.3}) as port, connect(port) as kept:
        kept.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert ended(kept)


def test_a_queue_of_silent_connections_delays_an_answer_by_seconds_only() -> None:
    """The time limits of one wave after the other would add up to minutes."""
    with two_at_a_time(**FOR_EVER | {"grace_seconds": 0.02}) as port:
        silent = [connect(port) for _ in range(50)]
        began = time.monotonic()
        assert b"nv_" in scrape(port)
        assert time.monotonic() - began < 15
        for connection in silent:
            connection.close()


def test_stopping_waits_for_no_connection() -> None:
    """There is one endless connection more than places, so the server is about to accept it."""
    with contextlib.ExitStack() as stack:
        with two_at_a_time(**FOR_EVER) as port:
            connections = [stack.enter_context(connect(port)) for _ in range(3)]
            time.sleep(0.3)
        for connection in connections:  # closed with the server
            assert ended(connection)


def test_errors_are_logged_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("broken")

    with two_at_a_time() as port:
        monkeypatch.setattr("mnserve.observability.metrics.MetricsPage.render", broken)
        with pytest.raises(urllib.error.HTTPError, match="500"):
            scrape(port)
    found = [(record.name, record.levelno, record.getMessage()) for record in caplog.records]
    assert found == [("mnserve.http.metrics", logging.ERROR, "metrics could not be answered")]
    assert capfd.readouterr().err == ""


def test_clients_that_leave_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    with two_at_a_time() as port:
        for text in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01 no HTTP"):
            with connect(port) as connection:
                connection.sendall(text)
        assert b"nv_" in scrape(port)
    assert not caplog.records


def test_a_second_stop_does_nothing() -> None:
    server = MetricsServer("127.0.0.1", 0, list)
    scrape(server.port)
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        connect(server.port)
