"""Connections of a port: new ones are kept out, and those that are there end after what was written."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from mnserve.access.connections import end_connections, refuse_connections


@pytest.fixture(params=["127.0.0.1", "::1"])
def listener(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    try:
        opened = socket.create_server(
            (request.param, 0), family=socket.AF_INET6 if ":" in request.param else socket.AF_INET
        )
    except OSError as error:
        pytest.skip(f"no such address here: {error}")
    with opened:
        yield opened


def connect(listener: socket.socket) -> socket.socket:
    host, port = listener.getsockname()[:2]
    return socket.create_connection((host, port), timeout=0.3)


def test_connections_end_after_what_was_written(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as other, connect(other) as bystander, other.accept()[0] as answering:
        with connect(listener) as client, listener.accept()[0] as serving:
            serving.sendall(b"answer")
            end_connections(port)
            assert client.recv(100) == b"answer"
            assert client.recv(100) == b""
            with pytest.raises(BrokenPipeError):
                serving.send(b"more")
            client.sendall(b"late")
            assert serving.recv(100) == b"late"
        answering.sendall(b"still here")
        assert bystander.recv(100) == b"still here"


def test_no_new_connection_is_let_in_and_those_before_go_on(listener: socket.socket) -> None:
    with connect(listener) as client, listener.accept()[0] as serving:
        refuse_connections(listener.getsockname()[1])
        with pytest.raises(OSError, match=r"timed out|refused"), contextlib.closing(connect(listener)):
            pass
        serving.sendall(b"answer")
        assert client.recv(100) == b"answer"
