"""2,000 connections that say nothing, half of something, or nonsense: callers are served meanwhile, nothing leaks."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from process_tree import family, open_files

StartServer = Callable[..., Any]
ClosedLoops = Callable[[str], Any]

CONNECTIONS = 2000
FILES = 4096
"""That a process here has to be allowed to have open."""
SLACK = 16
"""Files more or less that mean nothing: sockets on their way out, threads of the metrics."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\x04\x00" + bytes(4)
HALF_A_CALL = b"\x00\x00\x40\x01\x04\x00\x00\x00\x01\x83\x86"
"""Headers of 64 bytes, of which two come."""
FIRST_WORDS = (
    b"",
    PREFACE[:9],
    PREFACE + SETTINGS,
    PREFACE + SETTINGS + HALF_A_CALL,
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),  # TLS
    b"\xff\x00\x13\x37" * 64,
    PREFACE + b"\xff" * 512,
)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Lets this process, and the server that it starts, open enough files."""
    # The server inherits it.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"a process may have no more than {hard} files open here, and {FILES} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    """Connections that begin with each of FIRST_WORDS in turn."""
    host, _, port = address.rpartition(":")
    opened = []
    for number in range(count):
        item = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        item.sendall(FIRST_WORDS[number % len(FIRST_WORDS)])
        opened.append(item)
    return opened


def served(loop: Any, server: Any, count: int = 50) -> None:
    """So many further answers, each the caller's own."""
    before = loop.right
    server.wait_until(lambda: loop.right >= before + count or bool(loop.refusals))
    assert (loop.wrong, loop.refusals) == ([], [])


@pytest.mark.usefixtures("many_files")
def test_thousands_of_open_connections_are_served(
    start_server: StartServer, root: Path, closed_loop: ClosedLoops
) -> None:
    server = start_server(root)
    loop = closed_loop(server.address)
    loop.start(2)
    loop.start(1, streams=True)
    served(loop, server)
    before = open_files(server.process.pid)
    with ExitStack() as stack:
        opened = connect(stack, server.address, CONNECTIONS)
        assert len(opened) == CONNECTIONS
        # Those that talk nonsense are thrown out; those that only say little may stay.
        server.wait_until(lambda: open_files(server.process.pid) >= before + CONNECTIONS // 4)
        served(loop, server)
        late = closed_loop(server.address)  # a connection that is made while all the others are open
        late.start(1)
        served(late, server)
        late.stop()
    server.wait_until(lambda: open_files(server.process.pid) <= before + SLACK)
    served(loop, server)
    loop.stop()
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log()


def test_open_connections_to_the_metrics_delay_no_scrape(
    start_server: StartServer, root: Path, closed_loop: ClosedLoops
) -> None:
    """Connections kept open at the port of the metrics delay neither inference nor a scrape."""
    server = start_server(root)
    loop = closed_loop(server.address)
    loop.start(1)
    served(loop, server)
    before = open_files(server.process.pid)
    address = server.metrics.removeprefix("http://").removesuffix("/metrics")
    with ExitStack() as stack:
        connect(stack, address, 24)  # few: only some fit into the line of this port at a time
        server.wait_until(lambda: open_files(server.process.pid) >= before + 8)
        served(loop, server)
        assert server.metric("nv_inference_request_success") > 0
    server.wait_until(lambda: open_files(server.process.pid) <= before + SLACK)
    loop.stop()
    with ExitStack() as stack:
        connect(stack, address, 8)
        server.process.terminate()
        assert server.process.wait(60) == 0


def test_a_server_out_of_files_serves_open_connections_first(
    start_server: StartServer, root: Path, closed_loop: ClosedLoops
) -> None:
    """Open connections are served; new ones are served once others have closed."""
    server = start_server(root)
    loop = closed_loop(server.address)
    loop.start(2)
    served(loop, server)
    before = open_files(server.process.pid)
    for pid in family(server.process.pid):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + 40, hard))
    with ExitStack() as stack:
        connect(stack, server.address, 200)
        server.wait_until(lambda: open_files(server.process.pid) >= before + 30)
        served(loop, server)
    late = closed_loop(server.address)
    late.start(1)
    served(late, server)
    late.stop()
    loop.stop()
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log()
