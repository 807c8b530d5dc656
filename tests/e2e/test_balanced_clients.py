"""Clients that balance over several servers, as docs/serving/beyond-one-machine.md has them."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton

PAGE = Path(__file__).parents[2] / "docs/serving/beyond-one-machine.md"
TARGET = "dns:///mnserve-pods.models.svc.cluster.local:8001"
CALLS = 40


def answered(address: str) -> int:
    with triton.InferenceServerClient(address) as client:
        (model,) = client.get_inference_statistics("double").model_stats
        return int(model.inference_stats.success.count)


def test_the_client_of_the_page_calls_all_servers_and_survives_the_end_of_one(
    start_server: Callable[..., Any], write_models: Callable[[Path], None], tmp_path: Path
) -> None:
    write_models(tmp_path)
    servers = [start_server(tmp_path), start_server(tmp_path)]
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert code.count(TARGET) == 1
    names: dict[str, Any] = {}
    exec(code.replace(TARGET, "ipv4:" + ",".join(server.address for server in servers)), names)  # as a reader would
    client: triton.InferenceServerClient = names["client"]
    rows = np.ones((1, 4), np.float32)
    item = triton.InferInput("x", [1, 4], "FP32")
    item.set_data_from_numpy(rows)

    def call_often() -> None:
        for _ in range(CALLS):
            assert np.array_equal(client.infer("double", [item]).as_numpy("y"), 2 * rows)

    with client:
        call_often()
        while min(counts := [answered(server.address) for server in servers]) == 0:
            call_often()  # the second connection was not there yet
        before = sum(counts)
        servers[0].process.send_signal(signal.SIGTERM)
        call_often()  # while it drains and after it is gone
        assert servers[0].process.wait(60) == 0
        call_often()
    assert answered(servers[1].address) > before / 2
