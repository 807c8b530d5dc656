"""A process that stands still in the middle of a run, as in a frozen container."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from process_tree import send_signal
from tritonclient.grpc import service_pb2, service_pb2_grpc

RUN_TIMEOUT = 2.0


@pytest.mark.parametrize("seconds", [RUN_TIMEOUT - 0.1, RUN_TIMEOUT + 0.4])
def test_models_stay_ready_after_a_frozen_process_continues(
    start_server: Callable[..., Any], write_models: Callable[[Path], None], tmp_path: Path, seconds: float
) -> None:
    """A freeze about as long as --run-timeout may end just before or after the check of the run."""
    write_models(tmp_path)
    chosen = ("--model-control", "explicit", "--load-model", "slow")
    server = start_server(tmp_path, *chosen, "--run-timeout", str(RUN_TIMEOUT), "--log-level", "debug")
    request = service_pb2.ModelInferRequest(model_name="slow")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(np.ones((1, 4), "<f4").tobytes())
    with grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.ModelInfer(request, timeout=60)
        call = stub.ModelInfer.future(request, timeout=60)
        server.wait_for_log("model 'slow': running 1 requests", times=2)
        send_signal(server.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        send_signal(server.process.pid, signal.SIGCONT)
        assert np.frombuffer(call.result().raw_output_contents[0], "<f4").tolist() == [1, 1, 1, 1]
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=20).ready
    assert "has not ended" not in server.log()
