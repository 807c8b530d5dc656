"""Proxies in the environment: calls to this machine do not go through them, other calls do."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnserve.access.addresses import is_loopback
from mnserve.client.blocking import Client
from mnserve.client.channels import parse_address
from mnserve.commands import cli
from mnserve.errors import ServerUnreachableError

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy")
Serve = Callable[..., Awaitable[str]]


class Proxy:
    """A proxy that refuses everything, and the requests that it got."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._refuse)
        self._thread.start()

    def _refuse(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if not (line := connection.recv(4096).decode(errors="replace").partition("\r")[0]):
                    return
                self.requests.append(line)
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    made = Proxy()
    for name in VARIABLES:
        monkeypatch.setenv(name, made.url)
        monkeypatch.setenv(name.upper(), made.url)
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY", "NO_GRPC_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.close()


async def test_this_machine_is_reached_without_a_proxy(
    proxy: Proxy, serve: Serve, colour_model: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    colour_model("colours")
    url = await serve()
    image = tmp_path / "red.png"
    Image.fromarray(np.array([[[255, 0, 0]] * 6] * 4, np.uint8)).save(image)
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        words = ["predict", "colours", str(image), "--url", url.replace("127.0.0.1", host)]
        assert await asyncio.to_thread(cli.main, words) == 0
    words = ["bench", "colours", "colours", "--grpc", "--url", url, "--rounds", "1", "--seconds", "0.1"]
    assert await asyncio.to_thread(cli.main, words) == 0, capsys.readouterr().err
    assert proxy.requests == []


def test_another_machine_is_reached_through_the_proxy(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    hint = "calls go through the proxy that grpc_proxy names in the environment, unless no_proxy has the host"
    with Client("gpu-box.example:8001", 5) as client, pytest.raises(ServerUnreachableError, match=hint):
        client.server_live()
    assert proxy.requests[0] == "CONNECT gpu-box.example:8001 HTTP/1.1"
    proxy.requests.clear()
    monkeypatch.setenv("no_proxy", "example")
    with Client("gpu-box.example:8001", 5) as client, pytest.raises(ServerUnreachableError):
        client.server_live()
    assert proxy.requests == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("127.1", True), ("::1", True), ("[::1]", True), ("LOCALHOST", True),
        ("::ffff:127.0.0.1", True), ("127.0.0.1.example.org", False), ("127.example.org", False),
        ("localhost.example.org", False), ("10.0.0.1", False), ("::2", False), ("0.0.0.0", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_this_machine(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected
    if host and ":" not in host:
        assert parse_address(f"{host}:1").is_local == (expected or host == "0.0.0.0")
