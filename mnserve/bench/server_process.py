"""Server process of a measurement: caller and server share the machine and no interpreter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mnserve.bench.termination import signals_unwind
from mnserve.errors import BenchError
from mnserve.repository.listing import list_models

_MAIN = "import sys; from mnserve.__main__ import main; sys.exit(main())"
"""The console script, without a search for its installed file."""
_ADDRESS = re.compile(r"grpc://([^\s,]+)")
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05


@contextmanager
def server_process(repository: Path, arguments: Sequence[str]) -> Iterator[str]:
    """Runs ``mnserve serve`` on free ports of this machine for the duration of the block.

    Args:
        repository: Model repository to serve.
        arguments: Further arguments of `mnserve serve`.

    Yields:
        Address of the gRPC server, HOST:PORT.

    Raises:
        RepositoryNotFoundError: There is no such repository.
        BenchError: The server ends before it serves, or is not up in time.
    """
    list_models(repository)  # raises before the server is started
    command = [sys.executable, "-c", _MAIN, "serve", str(repository), "--host", "127.0.0.1"]
    command += ["--grpc-port", "0", "--metrics-port", "0", *arguments]
    # Output goes to a file: a pipe without a reader would block the server in the end.
    with tempfile.TemporaryDirectory(prefix="mnserve-bench-") as folder:
        log = Path(folder) / "server.log"
        with log.open("ab") as output, signals_unwind() as arm:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_plain_environment(),
            )
            try:
                arm()
                yield _wait_for_address(process, log)
            finally:
                _stop(process)


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        exit_code = process.poll()
        text = _read(log)
        address = _ADDRESS.search(text)
        if address is not None:
            return address[1]
        if exit_code is not None:
            raise BenchError(f"the server ended with exit code {exit_code} before it served: {_tail(text)}")
        time.sleep(_POLL_SECONDS)
    raise BenchError(
        f"the server was not up after {_START_SECONDS:g} s: {_tail(_read(log))}; start it yourself with "
        "`mnserve serve` and give its address with --url"
    )


def _plain_environment() -> dict[str, str]:
    """Copies the environment without options of the server, so that the arguments alone decide."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MNSERVE_")}


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("mnserve: ") if lines else "it printed nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
