"""Fixtures for tests of a whole server: certificates made on the spot, and clients of other threads.

The server runs in this process, and as the command where ``MNSERVE_FRONT_ENDS`` says how many processes take calls in.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from mnserve.commands import cli
from mnserve.commands.serve import SERVE
from mnserve.errors import CredentialsError, StartError
from mnserve.rpc.front_end import StopTimes
from mnserve.server import Server
from mnserve.settings import ServeSettings
from mnserve.starting.addresses import Addresses


class Certificates:
    """Writes certificates of one authority into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.ca = str(folder / "ca.pem")
        self.authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str = "server", **fields: Any) -> tuple[str, str]:
        """A certificate for this machine and its key: ``NAME.pem`` and ``NAME.key``, in one step each."""
        issued = self.authority.issue_cert("127.0.0.1", "localhost", key_type=trustme.KeyType.ECDSA, **fields)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        for path, blob in ((certificate, issued.cert_chain_pems[0]), (key, issued.private_key_pem)):
            path.unlink(missing_ok=True)
            path.touch(0o600)
            path.write_bytes(blob.bytes())
        return str(certificate), str(key)


@pytest.fixture
def command_line() -> Callable[[Sequence[str]], tuple[int, ServeSettings | None]]:
    """Runs the command line with a ``serve`` that serves nothing; returns the exit code and the settings it got."""

    def run(words: Sequence[str]) -> tuple[int, ServeSettings | None]:
        received: list[ServeSettings] = []
        code = cli.main(
            words, [replace(SERVE, run=lambda settings: received.append(settings) or 0, configure_log=None)]
        )  # type: ignore[func-returns-value]
        return code, received[0] if received else None

    return run


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    """An authority, and what it issues."""
    return Certificates(tmp_path / "certificates")


@pytest.fixture
def other_certificates(tmp_path: Path) -> Certificates:
    """An authority that nobody has a reason to trust."""
    return Certificates(tmp_path / "other-certificates")


@pytest.fixture
def token_file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a file of tokens that nobody else can read, in place of the last one; returns its path."""
    path = tmp_path / "tokens"

    def write(text: str) -> str:
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_text(text)
        return str(path)

    return write


class NotStartedError(StartError, CredentialsError):
    """A server in a process of its own that ended at once; the text is its log."""


def words_of(settings: dict[str, Any]) -> list[str]:
    """Options of the command line for settings; parts of them, such as ``security``, have options of their own."""
    words = []
    for name, value in settings.items():
        if is_dataclass(value):
            set_here = {item.name: getattr(value, item.name) for item in fields(value)}
            words += words_of({key: item for key, item in set_here.items() if item != getattr(type(value)(), key)})
            continue
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", *map(str, value if isinstance(value, tuple) else (value,))]
    return words


@pytest.fixture
async def start_server(repository: Path, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Addresses]]]:
    """Starts a server for ``repository`` with these settings, and stops it after the test; returns its addresses."""
    servers: list[Server] = []
    processes: list[asyncio.subprocess.Process] = []
    log = tmp_path / "server.log"

    async def start(**fields: Any) -> Addresses:
        given = {"grpc_port": 0, "metrics_port": 0, "intra_op_threads": 1, **fields}
        if "MNSERVE_FRONT_ENDS" in os.environ:
            command = [sys.executable, "-m", "mnserve", "serve", str(repository), *words_of(given)]
            with log.open("a") as stderr:
                process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=stderr)
            processes.append(process)
            assert process.stdout is not None
            words = (await process.stdout.readline()).decode().replace(",", " ").split()
            if not words:
                raise NotStartedError(log.read_text())
            (grpc,) = (word for word in words if word.startswith("grpc"))
            *http, metrics = (word for word in words if word.startswith("http"))
            return Addresses(grpc=grpc, metrics=metrics, http=http[0] if http else None)
        settings = ServeSettings(repository=str(repository), **given)
        servers.append(Server(settings, stop_times=StopTimes(refusal=0.0, last_answers=0.2)))
        return await servers[-1].start()

    yield start
    await asyncio.gather(*(server.stop() for server in servers))
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.fixture
def serve(start_server: Callable[..., Awaitable[Addresses]]) -> Callable[..., Awaitable[str]]:
    """Starts a server for ``repository`` with these settings and returns its address; it is stopped after the test."""

    async def start(**fields: Any) -> str:
        return (await start_server(**fields)).grpc

    return start
