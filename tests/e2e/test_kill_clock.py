"""A clock that jumps, as it does where it is set by hand, or a machine wakes up: nothing waits by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]

DAY = 86_400
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with how far the clock of processes that are started now is off. Only their wall clock: the monotonic one
    does not jump on a real machine either."""
    if LIBRARY is None:
        pytest.skip("needs libfaketime (Debian's package faketime)")
    offset = tmp_path / "offset"
    offset.write_text("+0")
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(offset))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    return offset


def ask(client: Any, model: str, value: float, **limits: Any) -> bool:
    item = triton.InferInput("x", [1, 4], "FP32")
    item.set_data_from_numpy(np.full((1, 4), value, np.float32))
    answer = client.infer(model, [item], **limits).as_numpy("y")
    return bool((answer == value * (2 if model == "double" else 1)).all())


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["forwards", "backwards"])
def test_a_clock_that_jumps(
    start_server: StartServer, write_models: Callable[[Path], None], tmp_path: Path, clock: Path, jump: int
) -> None:
    root = tmp_path / "models"
    write_models(root)
    (root / "slow" / "config.pbtxt").write_text(
        "max_batch_size: 8 dynamic_batching { default_queue_policy { default_timeout_microseconds: 60000000 } }"
    )
    server = start_server(root, "--run-timeout", "60", "--model-control", "poll", "--poll-seconds", "0.2")
    with triton.InferenceServerClient(server.address) as client, triton.InferenceServerClient(server.address) as other:
        assert ask(client, "double", 3)
        answers: list[Any] = []
        item = triton.InferInput("x", [1, 4], "FP32")
        item.set_data_from_numpy(np.full((1, 4), 5, np.float32))
        for _ in range(3):
            client.async_infer("slow", [item], lambda result, error: answers.append(error or result))
        clock.write_text(f"{jump:+d}")  # while they wait and run
        with pytest.raises(InferenceServerException, match=r"(?i)deadline"):
            ask(other, "slow", 1, client_timeout=0.001)
        assert ask(other, "slow", 2, client_timeout=60)
        deadline = time.monotonic() + 30
        while len(answers) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert ask(client, "double", 4)
        counted = client.get_inference_statistics("slow").model_stats[0].inference_stats
        for duration in (counted.success, counted.queue, counted.compute_infer):
            assert 0 < duration.ns / duration.count < 30e9
    server.process.terminate()
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.log()
    days = {line[:10] for line in server.log().splitlines() if line[:2] == "20"}
    assert len(days) > 1  # the jump was one
