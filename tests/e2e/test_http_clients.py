"""Clients of others on the HTTP port of a real server with several processes: Triton's, and curl."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from PIL import Image
from tritonclient.utils import InferenceServerException

X = np.arange(8, dtype=np.float32).reshape(2, 4)


class Served:
    """A server in processes of its own."""

    def __init__(self, repository: Path, log: Path) -> None:
        command = [sys.executable, "-m", "mnserve", "serve", str(repository), "--front-ends", "2"]
        command += ["--grpc-port", "0", "--metrics-port", "0", "--http-port", "0", "--intra-op-threads", "1"]
        command += ["--model-control", "explicit", "--load-model", "*"]
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert "http://" in self.line, log.read_text()
        self.address = self.line.split("http://")[1].split(",")[0].strip()
        self.metrics = self.line.split("metrics ")[1].strip()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, write_colour_model: Callable[..., Path]) -> Iterator[Served]:
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path_factory.mktemp("http")
    repository = folder / "repository"
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", rows[:1], rows[1:])
    for name in ("double", "late"):
        (repository / name / "1").mkdir(parents=True)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        onnx.save(model, repository / name / "1" / "model.onnx")
    delay = "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1500000 }"
    (repository / "late" / "config.pbtxt").write_text(delay)
    write_colour_model(repository, "colours")
    item = Served(repository, folder / "log")
    yield item
    if item.process.poll() is None:
        item.process.kill()
    item.process.communicate()


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    with triton.InferenceServerClient(served.address) as item:
        yield item


def input_of(array: np.ndarray[Any, Any], *, binary: bool = True) -> Any:
    tensor = triton.InferInput("x", array.shape, "FP32")
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_tritons_client_gets_its_answers(
    client: Any, compression: str | None, binary_in: bool, binary_out: bool
) -> None:
    array = np.tile(X, (4, 1))
    result = client.infer(
        "double",
        [input_of(array, binary=binary_in)],
        outputs=[triton.InferRequestedOutput("y", binary_data=binary_out)],
        request_id="7",
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    np.testing.assert_array_equal(result.as_numpy("y"), 2 * array)
    assert result.get_response()["id"] == "7"


def test_tritons_client_asks_and_administers(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("double")
    assert not client.is_model_ready("none")
    assert client.get_model_metadata("double")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert client.get_model_config("double")["name"] == "double"
    client.infer("double", [input_of(X)])
    (stats,) = client.get_inference_statistics("double")["model_stats"]
    assert stats["inference_stats"]["success"]["count"] > 0
    assert {"double", "late", "colours"} == {model["name"] for model in client.get_model_repository_index()}
    client.unload_model("double")
    with pytest.raises(InferenceServerException) as caught:
        client.infer("double", [input_of(X)])
    assert caught.value.status() == "503"
    client.load_model("double", config=json.dumps({"max_batch_size": 1}))
    with pytest.raises(InferenceServerException, match="at most 1"):
        client.infer("double", [input_of(X)])
    client.load_model("double")
    settings = client.update_log_settings({"log_verbose_level": 1})
    assert settings["log_verbose_level"] == client.get_log_settings()["log_verbose_level"] == 1
    client.update_log_settings({"log_verbose_level": 0})
    with pytest.raises(InferenceServerException, match="--trace-endpoint"):
        client.get_trace_settings()


def test_tritons_client_uses_shared_memory_through_any_front_end(client: Any, served: Served) -> None:
    memory = shared_memory.SharedMemory(create=True, size=2 * X.nbytes)
    try:
        memory.buf[: X.nbytes] = X.tobytes()
        client.unregister_system_shared_memory()
        client.register_system_shared_memory("both", f"/{memory.name}", 2 * X.nbytes)
        (region,) = client.get_system_shared_memory_status()
        assert (region["name"], region["byte_size"]) == ("both", 2 * X.nbytes)
        tensor = triton.InferInput("x", X.shape, "FP32")
        tensor.set_shared_memory("both", X.nbytes)
        wanted = triton.InferRequestedOutput("y")
        wanted.set_shared_memory("both", X.nbytes, X.nbytes)
        for _ in range(6):  # connections go to different front ends
            with triton.InferenceServerClient(served.address) as other:
                other.infer("double", [tensor], outputs=[wanted])
                found = np.frombuffer(memory.buf[X.nbytes :], np.float32).reshape(X.shape)
                np.testing.assert_array_equal(found, 2 * X)
                del found
        client.unregister_system_shared_memory("both")
        assert client.get_system_shared_memory_status() == []
    finally:
        memory.close()
        memory.unlink()


async def test_tritons_asynchronous_client_works(served: Served) -> None:
    async with triton_aio.InferenceServerClient(served.address) as client:
        results = await asyncio.gather(*(client.infer("double", [input_of(X + number)]) for number in range(20)))
        for number, result in enumerate(results):
            np.testing.assert_array_equal(result.as_numpy("y"), 2 * (X + number))
        with pytest.raises(InferenceServerException, match="no model 'none'"):
            await client.infer("none", [input_of(X)])


def curl(*words: str) -> Any:
    found = shutil.which("curl")
    if found is None:
        pytest.skip("curl is not installed")
    done = subprocess.run([found, "-sS", "--noproxy", "*", *words], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_curl_sends_json_and_images(served: Served, tmp_path: Path) -> None:
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    answer = curl(f"{served.address}/v2/models/double/infer", "-d", json.dumps(body))
    assert answer["outputs"][0]["data"] == [2, 4, 6, 8]
    Image.new("RGB", (6, 4), (10, 200, 30)).save(tmp_path / "green.png")
    wanted = '{"outputs": [{"name": "logits", "parameters": {"classification": 1}}]}'
    form = ["-F", f"image=@{tmp_path / 'green.png'}", "-F", f"request={wanted}"]
    answer = curl(f"{served.address}/v2/models/colours/infer", *form)
    assert answer["outputs"][0]["data"][0].startswith("200.000000:1")
    large = tmp_path / "large"  # curl asks with Expect: 100-continue whether it may send so much
    large.write_bytes(b" " * 70_000_000)
    answer = curl(f"{served.address}/v2/models/double/infer", "--data-binary", f"@{large}")
    assert "takes at most 67108864" in answer["error"]


def test_both_ports_have_the_metrics_of_all_processes(served: Served) -> None:
    def count(address: str) -> str:
        text = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", address], capture_output=True, check=True, text=True, timeout=60
        ).stdout
        return next(
            line for line in text.splitlines() if line.startswith('nv_inference_request_success{model="double"')
        )

    for _ in range(4):
        with triton.InferenceServerClient(served.address) as client:
            client.infer("double", [input_of(X)])
    assert count(f"http://{served.address}/metrics") == count(served.metrics)


def test_stopping_finishes_what_was_admitted(served: Served) -> None:
    """The last test: it ends the server."""
    answers: list[Any] = []

    def ask() -> None:
        with triton.InferenceServerClient(served.address, network_timeout=60) as client:
            answers.append(client.infer("late", [input_of(X)]).as_numpy("y"))

    with triton.InferenceServerClient(served.address) as kept:
        assert kept.is_server_ready()
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.5)
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        if not answers:  # it is still there to say so
            assert not kept.is_server_ready()
            with pytest.raises(InferenceServerException, match="stopping"):
                kept.infer("double", [input_of(X)])
    thread.join(60)
    np.testing.assert_array_equal(answers[0], 2 * X)
    assert served.process.wait(60) == 0
