"""SIGTERM while models load, and while a run hangs: the process ends by itself, in time, and without a crash."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from onnx import numpy_helper
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]

EXPLICIT = ("--model-control", "explicit", "--load-model", "double", "--log-level", "debug")
FOR_LONG = ("--drain-timeout", "600")
"""Nobody may use that time up."""
SAMPLE = "model 'slow': warm-up sample 'long'"


def many_runs(root: Path) -> None:
    """Loading ``slow`` takes the better part of an hour, in runs of some tenths of a second."""
    value = "data_type: TYPE_FP32 dims: [4] zero_data: true"
    inputs = f'inputs {{ key: "x" value {{ {value} }} }}'
    sample = f'model_warmup {{ name: "long" batch_size: 8 count: 10000 {inputs} }}'
    (root / "slow" / "config.pbtxt").write_text(f"max_batch_size: 8 {sample}")


def one_run(root: Path) -> None:
    """A run of ``slow`` takes hours, and with it loading it unless it is not warmed up."""
    path = root / "slow" / "1" / "model.onnx"
    model = onnx.load(path)
    (turns,) = (item for item in model.graph.initializer if item.name == "turns")
    turns.CopyFrom(numpy_helper.from_array(np.array(2**40, np.int64), "turns"))
    onnx.save(model, path)


def check_it_ended_well(server: Any, code: int = 0) -> None:
    """Before the drain's time is up, without a core."""
    assert server.process.wait(60) == code, server.log()
    log = server.log()
    assert "Traceback" not in log
    assert "never retrieved" not in log
    assert "Fatal" not in log
    assert "terminate called" not in log


def refused(call: Callable[[], Any], found: list[str]) -> threading.Thread:
    """Calls in a thread that notes how it was refused."""

    def work() -> None:
        try:
            call()
            found.append("an answer")
        except InferenceServerException as error:
            found.append(f"{error.status()}: {error.message()}".removeprefix("StatusCode."))
        except grpc.RpcError as error:
            found.append(f"{error.code().name}: {error.details()}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("slow", [many_runs, one_run])
def test_a_signal_during_the_first_load_ends_the_server(
    start_server: StartServer, root: Path, slow: Callable[[Path], None], number: signal.Signals
) -> None:
    slow(root)
    server = start_server(root, "--log-level", "debug", *FOR_LONG, announced=False)
    if slow is many_runs:
        server.wait_for_log(SAMPLE)
    else:
        server.wait_for_log("model 'plain' version 1 is ready")  # the next one
        time.sleep(0.3)
    server.process.send_signal(number)
    check_it_ended_well(server)
    assert "stopped before the models were loaded" in server.log()


@pytest.mark.parametrize("slow", [many_runs, one_run])
def test_a_signal_during_a_callers_load_refuses_the_load(
    start_server: StartServer, root: Path, slow: Callable[[Path], None]
) -> None:
    slow(root)
    server = start_server(root, *EXPLICIT, *FOR_LONG)
    told: list[str] = []
    with triton.InferenceServerClient(server.address) as client:
        callers = [refused(lambda: client.load_model("slow"), told) for _ in range(2)]
        if slow is many_runs:
            server.wait_for_log(SAMPLE)
        else:
            time.sleep(0.5)
        server.process.terminate()
        check_it_ended_well(server)
        for caller in callers:
            caller.join(30)
    assert len(told) == 2
    assert all(text.startswith("UNAVAILABLE: failed to load 'slow': model 'slow' ") for text in told), told
    assert all("as the server is stopping" in text for text in told), told


def test_a_load_given_up_and_asked_for_again_runs_once(start_server: StartServer, root: Path) -> None:
    many_runs(root)
    server = start_server(root, *EXPLICIT, *FOR_LONG)
    with triton.InferenceServerClient(server.address) as client:
        for _ in range(3):
            with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
                client.load_model("slow", client_timeout=1)
        server.wait_for_log("model 'slow': who asked for this load has left; it goes on")
        assert server.log().count(SAMPLE) == 1, "no load beside the first"
        assert client.is_server_live()
        client.load_model("plain")
    server.process.terminate()
    check_it_ended_well(server)


@pytest.mark.parametrize("unload", [False, True], ids=["served", "unloaded"])
def test_a_signal_during_a_hanging_run_refuses_its_request(
    start_server: StartServer, root: Path, request_for: Any, unload: bool
) -> None:
    one_run(root)
    server = start_server(root, *EXPLICIT, "--load-model", "slow", "--no-warm-up", "--drain-timeout", "0.5")
    told: list[str] = []
    with grpc.insecure_channel(server.address) as channel, triton.InferenceServerClient(server.address) as client:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        caller = refused(lambda: stub.ModelInfer(request_for(1.0, "slow"), timeout=120), told)
        server.wait_for_log("model 'slow': running 1 requests")
        if unload:
            client.unload_model("slow")
        server.process.terminate()
        check_it_ended_well(server, code=1)
        caller.join(30)
    assert told == ["UNAVAILABLE: model 'slow': the server stopped before this request could finish"]
