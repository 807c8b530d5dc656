"""Models loaded and unloaded by callers and by a changing repository: a real server, NVIDIA's client."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.utils import InferenceServerException

StartServer = Callable[..., Any]
NAMES = {"broken", "double", "picky", "plain", "slow", "text"}


@pytest.fixture
def root(write_models: Callable[[Path], None], tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


@pytest.fixture
def client(root: Path, start_server: StartServer) -> Iterator[Any]:
    server = start_server(root, "--model-control", "explicit", "--load-model", "double")
    with triton.InferenceServerClient(server.address) as item:
        yield item


def ask(client: Any, rows: int = 1) -> list[list[float]]:
    tensor = triton.InferInput("x", [rows, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((rows, 4), np.float32))
    found: list[list[float]] = client.infer("double", [tensor]).as_numpy("y").tolist()
    return found


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(InferenceServerException) as caught:
        call()
    return f"{caught.value.status()}: {caught.value.message()}".removeprefix("StatusCode.")


def states(client: Any) -> dict[str, str]:
    return {item.name: item.state for item in client.get_model_repository_index().models}


def test_callers_load_and_unload_models(client: Any, root: Path) -> None:
    assert client.is_server_ready()
    assert "model_repository" in client.get_server_metadata().extensions
    assert states(client) == {name: "READY" if name == "double" else "UNAVAILABLE" for name in NAMES}
    assert not client.is_model_ready("plain")
    client.load_model("plain")
    assert client.is_model_ready("plain")
    client.unload_model("plain", unload_dependents=True)
    assert not client.is_model_ready("plain")
    assert client.is_server_ready()
    assert ask(client) == [[2] * 4]
    shutil.copytree(root / "double" / "1", root / "double" / "2")
    client.load_model("double")
    assert client.get_model_metadata("double").versions == ["2"]


def test_a_load_or_unload_that_fails_is_refused_with_its_reason(client: Any, root: Path) -> None:
    broken = refusal(lambda: client.load_model("broken"))
    assert broken.startswith("INVALID_ARGUMENT: failed to load 'broken': model 'broken' was not loaded: ")
    assert refusal(lambda: client.load_model("gone")).startswith("NOT_FOUND: ")
    assert refusal(lambda: client.load_model("../double")).startswith("NOT_FOUND: ")
    client.unload_model("gone")  # is out already, as in Triton
    assert "gone" not in states(client)
    files = refusal(lambda: client.load_model("double", config="{}", files={"file:1/model.onnx": b"garbage"}))
    assert files.startswith("UNIMPLEMENTED: the parameter 'file:1/model.onnx' is not supported")
    (root / "double" / "1" / "model.onnx").write_bytes(b"garbage")
    assert "what was served stays" in refusal(lambda: client.load_model("double"))
    assert ask(client) == [[2] * 4]


def test_a_load_applies_the_configuration_of_its_call(client: Any, root: Path) -> None:
    shutil.copytree(root / "double" / "1", root / "double" / "2")
    config = {
        "max_batch_size": 3,
        "versionPolicy": {"specific": {"versions": [1]}},
        "dynamic_batching": {"max_queue_delay_microseconds": 100},
    }
    client.load_model("double", config=json.dumps(config))
    told = client.get_model_config("double").config
    assert (told.max_batch_size, told.dynamic_batching.max_queue_delay_microseconds) == (3, 100)
    assert client.get_model_metadata("double").versions == ["1"]
    assert ask(client) == [[2] * 4]
    with pytest.raises(InferenceServerException, match="expected at most 3"):
        ask(client, rows=4)

    broken = {
        '{"max_batchsize": 3}': "no ModelConfig: there is no field max_batchsize; take it out",
        '{"max_batch_size": "many"}': "no ModelConfig: max_batch_size is the text 'many'; write a whole number",
        '{"name": "plain"}': "names the model 'plain'",
        "[1]": "no ModelConfig: it is a list; write an object",
        "{": "is no JSON",
        '{"max_batch_size": -1}': "was not loaded again with the config of the call",
        '{"sequence_batching": {}}': "what was served stays: model 'double': config.pbtxt asks for sequence_batching",
        '{"default_model_filename": "../../plain/1/model.onnx"}': "is not a plain file name",
        '{"input": [{"name": "q", "data_type": "TYPE_FP32", "dims": [4]}]}': "has input 'q', but the model file has x",
    }
    for text, words in broken.items():
        told = refusal(lambda text=text: client.load_model("double", config=text))
        assert told.startswith("INVALID_ARGUMENT: failed to load 'double': model 'double'")
        assert words in told, told
    assert client.get_model_config("double").config.max_batch_size == 3
    assert ask(client) == [[2] * 4]
    assert refusal(lambda: client.load_model("gone", config="{}")).startswith("NOT_FOUND: ")

    client.load_model("double")
    assert client.get_model_config("double").config.max_batch_size == 8
    assert client.get_model_metadata("double").versions == ["2"]
    assert ask(client, rows=4) == [[2] * 4] * 4
    client.load_model("plain", config="{}")
    assert client.is_model_ready("plain")


def test_a_server_without_model_control_refuses_loads(root: Path, start_server: StartServer) -> None:
    with triton.InferenceServerClient(start_server(root).address) as client:
        assert states(client)["double"] == "READY"
        index = client.get_model_repository_index()
        assert "ONNX Runtime cannot load" in next(item.reason for item in index.models if item.name == "broken")
        for call in (client.load_model, client.unload_model):
            assert refusal(lambda call=call: call("double")).startswith(
                "UNIMPLEMENTED: callers load and unload models with --model-control explicit alone"
            )
        assert "model_repository" not in client.get_server_metadata().extensions


def test_a_repository_is_polled(root: Path, start_server: StartServer) -> None:
    moved = shutil.move(root / "plain", root.parent / f"{root.name}-plain")
    server = start_server(root, "--model-control", "poll", "--poll-seconds", "0.1")
    with triton.InferenceServerClient(server.address) as client:
        shutil.move(moved, root / "plain")
        shutil.rmtree(root / "text")
        end = time.monotonic() + 20
        while not client.is_model_ready("plain") or "text" in states(client):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask(client) == [[2] * 4]
    with grpc.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        serving = {name: health.Check(health_pb2.HealthCheckRequest(service=name)).status for name in ("plain", "text")}
    assert serving == {
        "plain": health_pb2.HealthCheckResponse.SERVING,
        "text": health_pb2.HealthCheckResponse.NOT_SERVING,
    }
