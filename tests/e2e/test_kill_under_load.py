"""A server that is told to stop, or is given more than it can take, while many callers use it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from tests.e2e.load import RIGHT, message, run_load

StartServer = Callable[..., Any]
CALLERS = 24


@pytest.fixture
def root(write_models: Callable[[Path], None], tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_under_load_loses_nothing_that_was_accepted(
    start_server: StartServer, root: Path, number: signal.Signals
) -> None:
    server = start_server(root)
    load = asyncio.ensure_future(run_load(server.address, "double", 2, CALLERS, asyncio.Event()))
    await asyncio.to_thread(server.wait_for_metric, 'nv_inference_request_success{model="double"', 500)
    server.process.send_signal(number)
    found = await asyncio.wait_for(load, 60)
    assert await asyncio.to_thread(server.process.wait, 30) == 0
    assert found.outcomes[RIGHT] >= 500
    assert set(found.outcomes) == {RIGHT, "UNAVAILABLE"}
    # What was refused was never accepted: by our own words, or since nothing listened any more.
    cut_off = [error.details() for error in found.errors if not _refused(error.details() or "")]
    assert not cut_off
    assert "Traceback" not in server.log()


def _refused(details: str) -> bool:
    return "stopping" in details or "failed to connect" in details.lower() or "connection refused" in details.lower()


async def test_a_full_queue_refuses_and_answers_all_that_it_let_in(start_server: StartServer, root: Path) -> None:
    server = start_server(root, "--max-queue-rows", "16")
    stop = asyncio.Event()
    load = asyncio.ensure_future(run_load(server.address, "slow", 1, 40, stop))
    await asyncio.to_thread(server.wait_for_metric, 'nv_inference_request_success{model="slow"', 30)
    stop.set()
    found = await asyncio.wait_for(load, 60)
    assert set(found.outcomes) == {RIGHT, "UNAVAILABLE"}
    for error in found.errors:
        trailing = dict(error.trailing_metadata() or ())
        assert int(trailing["grpc-retry-pushback-ms"]) > 0
        assert "rows are waiting" in (error.details() or "")
    assert found.outcomes[RIGHT] == server.metric('nv_inference_request_success{model="slow"')
    async with grpc.aio.insecure_channel(server.address) as channel:
        await service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message("slow", 1), timeout=30)


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, to be process 1 somewhere")
def test_it_stops_as_process_one(root: Path) -> None:
    """A process without a parent in its namespace ignores signals that it does not handle."""
    serve = [sys.executable, "-m", "mnserve", "serve", str(root), "--grpc-port", "0", "--metrics-port", "0"]
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", *serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        assert outer.stderr is not None
        if not outer.stdout.readline().startswith("serving"):
            pytest.skip(f"no namespace of processes to be had here: {outer.stderr.read().strip()[:100]}")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        assert outer.wait(30) == 0
