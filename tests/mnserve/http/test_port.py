"""The HTTP port of a real server: the calls of the protocol, and what ends them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

from mnserve.access.settings import SecuritySettings
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from mnserve.starting.addresses import Addresses

ServeHttp = Callable[..., Awaitable[httpx.AsyncClient]]
WriteModel = Callable[..., Path]

X = np.arange(4, dtype=np.float32)
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": X.tolist()}]}
INFER = "/v2/models/double/infer"


def error_of(response: httpx.Response) -> str:
    content = response.json()
    assert list(content) == ["error"]
    return str(content["error"])


async def test_json_and_binary_answers_are_those_of_gRPC(
    start_server: Callable[..., Awaitable[Addresses]], double_model: WriteModel
) -> None:
    double_model()
    addresses = await start_server(http_port=0)
    message = pb.ModelInferRequest(model_name="double", id="7", raw_input_contents=[X.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    async with grpc.aio.insecure_channel(addresses.grpc.removeprefix("grpc://")) as channel:
        expected = await GRPCInferenceServiceStub(channel).ModelInfer(message)  # type: ignore[arg-type,misc]
    text = json.dumps({**BODY, "id": "7", "parameters": {"binary_data_output": True}}).encode()
    async with httpx.AsyncClient(base_url=str(addresses.http)) as client:
        plain = (await client.post(INFER, json={**BODY, "id": "7"})).json()
        binary = await client.post(INFER, content=text)
    output = {"name": "y", "datatype": "FP32", "shape": [1, 4]}
    y = np.frombuffer(expected.raw_output_contents[0], np.float32)
    head = {"model_name": "double", "model_version": "1", "id": "7"}
    assert plain == {**head, "outputs": [{**output, "data": y.tolist()}]}
    length = int(binary.headers["inference-header-content-length"])
    assert json.loads(binary.content[:length]) == {
        **head,
        "outputs": [{**output, "parameters": {"binary_data_size": 16}}],
    }
    assert binary.content[length:] == expected.raw_output_contents[0]
    assert binary.headers["content-type"] == "application/octet-stream"


async def test_what_is_asked_is_answered(serve_http: ServeHttp, double_model: WriteModel) -> None:
    double_model()
    client = await serve_http(server_name="triton")
    for path in (
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/double/ready",
        "/v2/models/double/versions/1/ready",
    ):
        assert (await client.get(path)).status_code == 200, path
    for path in ("/v2/models/none/ready", "/v2/models/double/versions/9/ready"):
        assert (await client.get(path)).status_code == 400, path
    for path in ("/v2", "/v2/"):
        found = (await client.get(path)).json()
        assert (found["name"], "binary_tensor_data" in found["extensions"]) == ("triton", True)
    tensor = {"datatype": "FP32", "shape": [-1, 4]}
    for path in ("/v2/models/double", "/v2/models/double/versions/1"):
        assert (await client.get(path)).json() == {
            "name": "double",
            "versions": ["1"],
            "platform": "onnxruntime_onnx",
            "inputs": [{"name": "x", **tensor}],
            "outputs": [{"name": "y", **tensor}],
        }
    config = (await client.get("/v2/models/double/config")).json()
    assert (config["max_batch_size"], config["input"][0]["data_type"], config["input"][0]["dims"]) == (
        32,
        "TYPE_FP32",
        [4],
    )
    await client.post(INFER, json=BODY)
    for path in ("/v2/models/stats", "/v2/models/double/stats", "/v2/models/double/versions/1/stats"):
        (stats,) = (await client.get(path)).json()["model_stats"]
        assert (stats["name"], stats["inference_stats"]["success"]["count"]) == ("double", 1)
    index = (await client.post("/v2/repository/index")).json()
    assert index == [{"name": "double", "version": "1", "state": "READY", "reason": ""}]
    metrics = await client.get("/metrics")
    assert 'nv_inference_count{model="double",version="1"} 1.0' in metrics.text
    assert metrics.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/v2/models/none/infer", BODY, 404, "there is no model 'none'"),
        ("POST", "/v2/models/double/versions/9/infer", BODY, 404, "version"),
        ("POST", "/v2/models/double/versions/x/infer", BODY, 400, "'x'"),
        ("POST", INFER, {}, 400, "input 'x' is missing"),
        ("POST", INFER, b"{", 400, "no JSON"),
        ("POST", INFER, {**BODY, "parameters": {"sequence_id": 3}}, 501, "sequence_id"),
        ("POST", INFER, {**BODY, "parameters": {"timeout": -3}}, 400, "'timeout' is -3"),
        ("GET", "/v2/models/none", None, 404, "there is no model 'none'"),
        ("GET", "/v2/models/double/versions/two", None, 400, "two"),
        ("POST", "/v2/repository/models/double/load", {}, 501, "--model-control explicit"),
        ("POST", "/v2/repository/models/double/unload", {}, 501, "--model-control explicit"),
        ("POST", "/v2/repository/index", {"ready": 1}, 400, "neither true nor false"),
        ("POST", "/v2/logging", {"log_verbose_level": 1.5}, 400, "log_verbose_level"),
        ("POST", "/v2/logging", {"nothing": 1}, 400, "no log setting"),
        ("GET", "/v2/logging", {"log_info": False}, 400, "GET changes no settings"),
        ("GET", "/v2/trace/setting", {"trace_rate": "1"}, 400, "send POST"),
        ("GET", "/v2/trace/setting", None, 501, "--trace-endpoint"),
        ("GET", "/v2/systemsharedmemory/region/a/status", None, 404, "'a'"),
        ("POST", "/v2/systemsharedmemory/region/a/register", {"key": "/none"}, 400, "byte_size"),
        ("POST", "/v2/systemsharedmemory/region/a/register", {"key": 3, "byte_size": 1}, 400, "key"),
        ("POST", "/v2/cudasharedmemory/region/a/register", {}, 501, "CudaSharedMemoryRegister"),
        ("GET", "/v2/nothing", None, 404, "/openapi.json"),
        ("GET", "/", None, 404, "/openapi.json"),
        ("GET", INFER, None, 405, "POST"),
        ("DELETE", "/v2/models/double", None, 405, "GET"),
    ],
)
async def test_failures_have_the_statuses_of_triton_and_a_sentence(
    serve_http: ServeHttp, double_model: WriteModel, method: str, path: str, body: Any, status: int, words: str
) -> None:
    double_model()
    client = await serve_http()
    text = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    response = await client.request(method, path, content=text)
    assert response.status_code == status, response.text
    assert words in error_of(response)


async def test_models_are_loaded_and_unloaded(serve_http: ServeHttp, double_model: WriteModel) -> None:
    double_model()
    client = await serve_http(model_control="explicit")
    assert (await client.post(INFER, json=BODY)).status_code == 503
    assert (await client.post("/v2/repository/index", json={"ready": True})).json() == []
    assert (await client.post("/v2/repository/models/double/load")).json() == {}
    assert (await client.post(INFER, json=BODY)).status_code == 200
    override = {"parameters": {"config": '{"max_batch_size": 2}'}}
    assert (await client.post("/v2/repository/models/double/load", json=override)).status_code == 200
    assert (await client.get("/v2/models/double/config")).json()["max_batch_size"] == 2
    files = {"parameters": {"config": "{}", "file:1/model.onnx": "AAAA"}}
    refused = await client.post("/v2/repository/models/double/load", json=files)
    assert (refused.status_code, "file:1/model.onnx" in error_of(refused)) == (501, True)
    missing = await client.post("/v2/repository/models/none/load")
    assert (missing.status_code, "failed to load 'none'" in error_of(missing)) == (404, True)
    assert (await client.post("/v2/repository/models/double/unload", json={})).json() == {}
    gone = await client.post(INFER, json=BODY)
    assert (gone.status_code, gone.headers["retry-after"]) == (503, "1")


async def test_rights_are_those_of_gRPC(
    serve_http: ServeHttp, double_model: WriteModel, token_file: Callable[[str], str]
) -> None:
    double_model()
    reader, operator = "r" * 20, "o" * 20
    file = token_file(f"{reader}\n{operator} control\n")
    client = await serve_http(security=SecuritySettings(token_file=file), model_control="explicit", load_model=("*",))

    async def status(method: str, path: str, token: str | None) -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        response = await client.request(method, path, headers=headers, json=BODY if "infer" in path else None)
        if response.status_code == 401:
            assert response.headers["www-authenticate"] == "Bearer"
            assert "token" in error_of(response)
        return response.status_code

    for path in ("/v2/health/live", "/v2/health/ready"):
        assert await status("GET", path, None) == 200
    for method, path in (
        ("POST", INFER),
        ("GET", "/v2"),
        ("GET", "/v2/models/double"),
        ("GET", "/v2/models/double/config"),
        ("GET", "/v2/models/double/ready"),
        ("GET", "/v2/models/stats"),
        ("GET", "/metrics"),
        ("POST", "/v2/repository/index"),
    ):
        assert [await status(method, path, token) for token in (None, "x" * 20, reader)] == [401, 401, 200], path
    for method, path, allowed in (
        ("POST", "/v2/repository/models/double/load", 200),
        ("GET", "/v2/logging", 200),
        ("POST", "/v2/logging", 200),
        ("GET", "/v2/systemsharedmemory/status", 200),
        ("POST", "/v2/systemsharedmemory/unregister", 200),
        ("GET", "/v2/trace/setting", 501),
        ("POST", "/v2/repository/models/double/unload", 200),
    ):
        found = [await status(method, path, token) for token in (None, reader, operator)]
        assert found == [401, 403, allowed], path


async def test_wrong_tokens_of_an_address_are_limited_and_so_are_requests(
    serve_http: ServeHttp, double_model: WriteModel, token_file: Callable[[str], str]
) -> None:
    double_model()
    token = "r" * 20
    client = await serve_http(security=SecuritySettings(token_file=token_file(token)), rate_limit=0.01, rate_burst=2)
    wrong = [(await client.get("/v2", headers={"Authorization": "Bearer " + "w" * 20})).status_code for _ in range(3)]
    assert wrong == [401, 401, 429]
    good = {"Authorization": f"Bearer {token}"}
    answers = [await client.post(INFER, json=BODY, headers=good) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 100


async def test_bodies_are_bounded(serve_http: ServeHttp, double_model: WriteModel) -> None:
    double_model()
    client = await serve_http(max_message_bytes=2000)

    async def pieces() -> Any:
        for _ in range(100):
            yield b" " * 1000

    for content in (b" " * 100_000, pieces()):
        response = await client.post(INFER, content=content)
        assert response.status_code == 413
        assert "takes at most 2000; send less" in error_of(response)
    small = await client.post("/v2/repository/index", content=b" " * 70_000)
    assert (small.status_code, "65536" in error_of(small)) == (413, True)
    assert (await client.post(INFER, json=BODY)).status_code == 200, "the connection is still good"
    assert 'mnserve_refused_calls{reason="MESSAGE"} 3.0' in (await client.get("/metrics")).text


async def test_places_are_bounded(serve_http: ServeHttp, double_model: WriteModel) -> None:
    double_model()
    client = await serve_http(max_concurrent_requests=1)
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> Any:
        yield json.dumps(BODY).encode()
        arrived.set()
        await go_on.wait()

    first = asyncio.create_task(client.post(INFER, content=slow()))
    await arrived.wait()
    await asyncio.sleep(0.2)
    refused = await client.post(INFER, json=BODY)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "has 1 calls of inference in progress" in error_of(refused)
    assert (await client.get("/v2/health/live")).status_code == 200
    go_on.set()
    assert (await first).status_code == 200


async def test_pages_of_other_sites_are_refused(serve_http: ServeHttp, double_model: WriteModel) -> None:
    double_model()
    client = await serve_http()
    refused = await client.post(INFER, json=BODY, headers={"Origin": "https://evil.example"})
    assert (refused.status_code, "evil.example" in error_of(refused)) == (403, True)
    own = str(client.base_url).rstrip("/")
    assert (await client.post(INFER, json=BODY, headers={"Origin": own})).status_code == 200


async def test_a_client_that_leaves_cancels_its_request(serve_http: ServeHttp, double_model: WriteModel) -> None:
    double_model(config="max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 60000000 }")
    client = await serve_http()
    with pytest.raises(httpx.ReadTimeout):
        await client.post(INFER, json=BODY, timeout=0.3)
    counter = 'nv_inference_request_failure{model="double",reason="CANCELED",version="1"} 1.0'
    async with asyncio.timeout(20):
        while counter not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.1)
