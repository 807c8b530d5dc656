"""More callers than may wait: those let in are answered, others are told when to come back, and then are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2_grpc

StartServer = Callable[..., Any]
CALLERS = 48
ROWS = 8
"""That may wait, and that run at a time."""
SMALL = ("--max-queue-rows", str(ROWS), "--default-max-batch-size", str(ROWS))
PENDING = 'nv_inference_pending_request_count{model="slow",version="1"}'
LIMIT = f"more would exceed the limit of {ROWS}"
REJECTED = 'nv_inference_request_failure{model="slow",reason="REJECTED",version="1"}'


class Patient:
    """A caller that comes back when the server says so, until it is answered."""

    def __init__(self, stub: Any, message: Any, value: float) -> None:
        self._stub, self._message, self.value = stub, message, value
        self.refusals: list[tuple[str, str, str | None]] = []
        """Code, details and the hint, of every time."""
        self.answer: list[float] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        deadline = time.monotonic() + 60
        while not self.answer and time.monotonic() < deadline:
            try:
                response = self._stub.ModelInfer(self._message, timeout=60)
            except grpc.RpcError as caught:
                error: Any = caught
                hint = dict(error.trailing_metadata()).get("grpc-retry-pushback-ms")
                self.refusals.append((error.code().name, error.details(), hint))
                if hint is None:
                    return
                time.sleep(int(hint) / 1000)
            else:
                self.answer = np.frombuffer(response.raw_output_contents[0], "<f4").tolist()


def test_callers_beyond_a_small_queue_are_refused_and_answered_later(
    start_server: StartServer, root: Path, request_for: Callable[..., Any]
) -> None:
    server = start_server(root, *SMALL)
    with grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        callers = [Patient(stub, request_for(value, "slow"), value) for value in map(float, range(CALLERS))]
        for caller in callers:
            caller.thread.join(60)
        assert [caller.answer for caller in callers] == [pytest.approx([caller.value] * 4) for caller in callers]
        refusals = [refusal for caller in callers for refusal in caller.refusals]
        assert len(refusals) >= ROWS  # they came faster than two batches can have been run
        assert {(code, hint) for code, _, hint in refusals} == {("UNAVAILABLE", "100")}
        assert [details for _, details, _ in refusals if LIMIT not in details] == []
        # Those let in are exactly those answered: nobody was refused afterwards, and nobody waits.
        assert server.metric('nv_inference_request_success{model="slow"') == CALLERS
        assert server.metric(REJECTED) == len(refusals)
        assert server.metric(PENDING) == 0
        after = stub.ModelInfer(request_for(7.0, "slow"), timeout=60)
        assert np.frombuffer(after.raw_output_contents[0], "<f4").tolist() == pytest.approx([7.0] * 4)
    assert "Traceback" not in server.log()


def test_a_full_queue_refuses_no_request_of_another_model(
    start_server: StartServer, root: Path, closed_loop: Any
) -> None:
    """A queue belongs to one model."""
    server = start_server(root, *SMALL)
    crowd, others = closed_loop(server.address), closed_loop(server.address)
    crowd.start(CALLERS, model="slow", factor=1.0)
    server.wait_until(lambda: bool(crowd.refusals))
    others.start(4)
    server.wait_until(lambda: others.right >= 50)
    others.stop()
    crowd.stop()
    assert (others.wrong, others.refusals, crowd.wrong) == ([], [], [])
    assert {code for code, _ in crowd.refusals} == {"UNAVAILABLE"}
    assert crowd.right > 0
