"""A real server process and NVIDIA's client: every call, every fault, the status each one gets."""

from __future__ import annotations

import sys
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

Array = np.ndarray[Any, Any]
StartServer = Callable[..., Any]


def tensor(array: Array, datatype: str = "FP32", name: str = "x") -> triton.InferInput:
    item = triton.InferInput(name, list(array.shape), datatype)
    item.set_data_from_numpy(array)
    return item


def rows(*values: float) -> Array:
    return np.repeat(np.array(values, dtype=np.float32)[:, None], 4, axis=1)


def code_of(error: InferenceServerException) -> str:
    return str(error.status()).removeprefix("StatusCode.")


@pytest.fixture(scope="module")
def server(start_server: StartServer, write_models: Callable[[Path], None], tmp_path_factory: Any) -> Any:
    root = tmp_path_factory.mktemp("repository")
    write_models(root)
    return start_server(root, "--max-queue-rows", "32", "--max-message-bytes", str(256 * 1024), "--log-level", "debug")


@pytest.fixture
def client(server: Any) -> Any:
    with triton.InferenceServerClient(server.address) as item:
        yield item


@pytest.fixture
def stub(server: Any) -> Any:
    with grpc.insecure_channel(server.address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def test_health_and_metadata_show_ready_and_broken_models(client: Any, server: Any) -> None:
    assert client.is_server_live()
    assert not client.is_server_ready()  # one model is broken
    assert client.is_model_ready("double")
    assert client.is_model_ready("double", "1")
    assert not client.is_model_ready("double", "7")
    assert not client.is_model_ready("broken")
    assert not client.is_model_ready("nothing")
    metadata = client.get_server_metadata()
    assert metadata.name == "mnserve"
    assert list(metadata.extensions) == [
        "classification",
        "model_configuration",
        "statistics",
        "schedule_policy",
        "system_shared_memory",
        "logging",
    ]
    model = client.get_model_metadata("double")
    assert (model.name, list(model.versions), model.platform) == ("double", ["1"], "onnxruntime_onnx")
    assert [(item.name, item.datatype, list(item.shape)) for item in model.inputs] == [("x", "FP32", [-1, 4])]
    plain = client.get_model_metadata("plain")
    assert list(plain.inputs[0].shape) == [2, 3]
    config = client.get_model_config("double").config
    assert (config.max_batch_size, list(config.input[0].dims)) == (8, [4])
    assert client.get_model_config("plain").config.max_batch_size == 0
    assert "models" in server.announcement
    assert "cannot be served" in server.log()


def test_infer_answers_numbers_integers_and_strings(client: Any) -> None:
    answer = client.infer("double", [tensor(rows(1, 2))], request_id="abc", model_version="1")
    assert answer.as_numpy("y").tolist() == [[2] * 4, [4] * 4]
    response = answer.get_response()
    assert (response.id, response.model_name, response.model_version) == ("abc", "double", "1")
    assert len(response.raw_output_contents) == 2
    assert not any(item.HasField("contents") for item in response.outputs)
    plain = client.infer("plain", [tensor(np.arange(6, dtype=np.int64).reshape(2, 3), "INT64")])
    assert plain.as_numpy("y").tolist() == [[0, 1, 2], [3, 4, 5]]
    text = np.array([[b"a"], ["\u00e9".encode()]], dtype=object)
    assert client.infer("text", [tensor(text, "BYTES")]).as_numpy("y").tolist() == text.tolist()


def test_the_level_of_the_log_can_be_changed_while_it_runs(client: Any, server: Any) -> None:
    before = client.get_log_settings(as_json=True)["settings"]["log_verbose_level"].get("uint32_param", 0)
    client.update_log_settings({"log_verbose_level": 0})
    client.infer("double", [tensor(rows(1))], request_id="not-logged")
    settings = client.update_log_settings({"log_verbose_level": 1}, as_json=True)["settings"]
    assert settings["log_verbose_level"] == {"uint32_param": 1}
    client.infer("double", [tensor(rows(1))], request_id="logged")
    client.update_log_settings({"log_verbose_level": before})
    assert "[request logged]" in server.log()
    assert "not-logged" not in server.log()


def test_outputs_come_in_the_order_asked_for(client: Any) -> None:
    wanted = [triton.InferRequestedOutput("z"), triton.InferRequestedOutput("y")]
    response = client.infer("double", [tensor(rows(1))], outputs=wanted).get_response()
    assert [item.name for item in response.outputs] == ["z", "y"]
    response = client.infer("double", [tensor(rows(1))], outputs=wanted[:1]).get_response()
    assert [item.name for item in response.outputs] == ["z"]


def test_every_caller_gets_its_own_rows(client: Any) -> None:
    """Many callers at once, requests of different sizes; a swapped row would show its owner's number."""

    def call(number: int) -> None:
        size = number % 5 + 1
        x = 100.0 * number + np.arange(size * 4, dtype=np.float32).reshape(size, 4)
        answer = client.infer("double", [tensor(x)])
        np.testing.assert_array_equal(answer.as_numpy("y"), 2 * x)
        np.testing.assert_array_equal(answer.as_numpy("z"), -x)

    before = client.get_inference_statistics("double").model_stats[0]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(call, range(300)))
    after = client.get_inference_statistics("double").model_stats[0]
    assert after.inference_stats.success.count - before.inference_stats.success.count == 300
    assert after.inference_count - before.inference_count == sum(number % 5 + 1 for number in range(300))
    assert after.execution_count - before.execution_count <= 300
    assert after.inference_stats.queue.count > before.inference_stats.queue.count


def infer(**fields: Any) -> Callable[[Any], Any]:
    given = {"model_name": "double", "inputs": [tensor(rows(1))], **fields}
    return lambda client: client.infer(**given)


def output(name: str, **fields: Any) -> list[Any]:
    return [triton.InferRequestedOutput(name, **fields)]


def shared_input() -> triton.InferInput:
    item = triton.InferInput("x", [1, 4], "FP32")
    item.set_shared_memory("region", 16)
    return item


def raw_request(change: Callable[[Any], None]) -> Callable[[Any], Any]:
    """A fault that the client library would not let through."""

    def call(client: Any) -> Any:
        request = one_row("double")
        change(request)
        try:
            return client._client_stub.ModelInfer(request)
        except grpc.RpcError as error:
            raise InferenceServerException(error.details(), str(error.code())) from None

    return call


def both_kinds(request: Any) -> None:
    request.inputs[0].contents.fp32_contents.extend([1, 2, 3, 4])


def few_bytes(request: Any) -> None:
    request.raw_input_contents[0] = bytes(15)


def negative(request: Any) -> None:
    request.inputs[0].shape[0] = -1


def text_timeout(request: Any) -> None:
    request.parameters["timeout"].string_param = "5"


def huge(request: Any) -> None:
    request.inputs[0].shape[:] = [2**62, 4]


NAN = np.array([[1, np.nan, 2, 3]], dtype=np.float32)
FAULTS: dict[str, tuple[Callable[[Any], Any], str, list[str]]] = {
    "unknown model": (infer(model_name="nothing"), "NOT_FOUND", ["'nothing'", "double"]),
    "unknown version": (infer(model_version="7"), "NOT_FOUND", ["version 7"]),
    "not a version": (infer(model_version="x"), "INVALID_ARGUMENT", ["'x'"]),
    "broken model": (infer(model_name="broken"), "UNAVAILABLE", ["cannot load"]),
    "broken version": (infer(model_name="broken", model_version="1"), "UNAVAILABLE", ["cannot load"]),
    "missing input": (infer(inputs=[]), "INVALID_ARGUMENT", ["'x' is missing"]),
    "unknown input": (infer(inputs=[tensor(rows(1), name="q")]), "INVALID_ARGUMENT", ["'q'"]),
    "duplicate input": (infer(inputs=[tensor(rows(1))] * 2), "INVALID_ARGUMENT", ["'x' is given twice"]),
    "unknown output": (infer(outputs=output("q")), "INVALID_ARGUMENT", ["'q'", "'y'"]),
    "duplicate output": (infer(outputs=output("y") * 2), "INVALID_ARGUMENT", ["'y' is requested twice"]),
    "datatype": (infer(inputs=[tensor(rows(1).astype("f8"), "FP64")]), "INVALID_ARGUMENT", ["FP64", "FP32"]),
    "shape": (infer(inputs=[tensor(rows(1)[:, :3].copy())]), "INVALID_ARGUMENT", ["[1, 3]", "[-1, 4]"]),
    "rank": (infer(inputs=[tensor(rows(1)[0])]), "INVALID_ARGUMENT", ["[4]", "[-1, 4]"]),
    "batch 0": (infer(inputs=[tensor(rows())]), "INVALID_ARGUMENT", ["0 rows"]),
    "batch too large": (infer(inputs=[tensor(rows(*range(9)))]), "INVALID_ARGUMENT", ["9 rows", "at most 8"]),
    "NaN": (infer(inputs=[tensor(NAN)]), "INVALID_ARGUMENT", ["1 values", "[0, 1]", "allow_non_finite"]),
    "negative timeout": (infer(timeout=-5), "INVALID_ARGUMENT", ["-5"]),
    "timeout of another type": (raw_request(text_timeout), "INVALID_ARGUMENT", ["string_param", "int64_param"]),
    "shared memory that nobody registered": (infer(inputs=[shared_input()]), "INVALID_ARGUMENT", ["'region'"]),
    "classification": (infer(outputs=output("y", class_count=-2)), "INVALID_ARGUMENT", ["classification", "-2"]),
    "sequence": (infer(sequence_id=5), "UNIMPLEMENTED", ["sequence"]),
    "raw and typed": (raw_request(both_kinds), "INVALID_ARGUMENT", ["both"]),
    "byte size": (raw_request(few_bytes), "INVALID_ARGUMENT", ["15 bytes", "16"]),
    "negative dimension": (raw_request(negative), "INVALID_ARGUMENT", ["[-1, 4]", "negative"]),
    "huge dimension": (raw_request(huge), "INVALID_ARGUMENT", ["at most 8"]),
    "string that is not UTF-8": (
        infer(model_name="text", inputs=[tensor(np.array([[b"\xff"]], dtype=object), "BYTES")]),
        "INVALID_ARGUMENT",
        ["UTF-8"],
    ),
    "engine": (
        infer(model_name="picky", inputs=[tensor(np.array([[9]], dtype=np.int64), "INT64", "index")]),
        "INTERNAL",
        ["ONNX Runtime failed", "internal error"],
    ),
    "message too large": (
        infer(inputs=[tensor(np.zeros((20_000, 4), np.float32))]),
        "RESOURCE_EXHAUSTED",
        ["larger than max"],
    ),
    "load": (lambda client: client.load_model("double"), "UNIMPLEMENTED", ["--model-control explicit"]),
    "shared memory status": (
        lambda client: client.get_system_shared_memory_status("r"),
        "NOT_FOUND",
        ["no shared memory region 'r'"],
    ),
    "shared memory of a GPU": (
        lambda client: client.register_cuda_shared_memory("r", b"", 0, 4),
        "UNIMPLEMENTED",
        ["CudaSharedMemoryRegister"],
    ),
    "tracing": (lambda client: client.get_trace_settings(), "UNIMPLEMENTED", ["--trace-endpoint"]),
    "a log setting that stays": (
        lambda client: client.update_log_settings({"log_file": "other.log"}),
        "UNIMPLEMENTED",
        ["log_file stays ''"],
    ),
    "levels that exclude each other": (
        lambda client: client.update_log_settings({"log_info": True, "log_warning": False}),
        "INVALID_ARGUMENT",
        ["log_info is on and log_warning off"],
    ),
    "metadata of an unknown model": (lambda client: client.get_model_metadata("q"), "NOT_FOUND", ["'q'"]),
    "configuration of a broken model": (lambda client: client.get_model_config("broken"), "UNAVAILABLE", []),
    "statistics of an unknown model": (lambda client: client.get_inference_statistics("q"), "NOT_FOUND", ["'q'"]),
    "readiness of no version": (lambda client: client.is_model_ready("double", "x"), "INVALID_ARGUMENT", ["'x'"]),
}


@pytest.mark.parametrize(("call", "code", "words"), FAULTS.values(), ids=list(FAULTS))
def test_faulty_calls_get_the_status_and_words_of_their_fault(
    client: Any, call: Callable[[Any], Any], code: str, words: list[str]
) -> None:
    with pytest.raises(InferenceServerException) as caught:
        call(client)
    assert code_of(caught.value) == code, str(caught.value)
    assert all(word in str(caught.value.message()) for word in words), str(caught.value)
    client.infer("double", [tensor(rows(1))])  # the server is none the worse for it


def test_an_internal_error_is_in_the_log_under_its_id(client: Any, server: Any) -> None:
    with pytest.raises(InferenceServerException, match="internal error") as caught:
        client.infer("picky", [tensor(np.array([[9]], dtype=np.int64), "INT64", "index")])
    error_id = str(caught.value.message()).split("internal error ")[1].split(",")[0]
    assert f"internal error {error_id}" in server.log()
    assert "Traceback" in server.log().split(error_id)[1]


def test_the_parameters_of_perf_analyzer_are_tolerated(stub: Any) -> None:
    request = one_row("double")
    request.outputs.add(name="y")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    assert np.frombuffer(stub.ModelInfer(request).raw_output_contents[0], "<f4").tolist() == [2] * 4


def one_row(model: str) -> Any:
    request = service_pb2.ModelInferRequest(model_name=model)
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(np.ones(4, "<f4").tobytes())
    return request


RUNNING = "model 'slow': running"
PENDING = 'nv_inference_pending_request_count{model="slow",version="1"}'


@pytest.fixture
def busy(client: Any, server: Any) -> Any:
    """The engine of the model ``slow`` has just begun to run one request."""
    runs = server.log().count(RUNNING)
    thread = threading.Thread(target=client.infer, args=("slow", [tensor(rows(1))]))
    thread.start()
    server.wait_for_log(RUNNING, runs + 1)
    yield thread
    thread.join()


@pytest.mark.parametrize("limit", [{"timeout": 20_000}, {"client_timeout": 0.02}], ids=["parameter", "deadline"])
def test_deadlines_fire_while_the_engine_is_busy(client: Any, server: Any, busy: Any, limit: dict[str, Any]) -> None:
    runs = server.log().count(RUNNING)
    with pytest.raises(InferenceServerException) as caught:
        client.infer("slow", [tensor(rows(1))], **limit)
    assert code_of(caught.value) == "DEADLINE_EXCEEDED"
    assert busy.is_alive()  # it did not wait for the batch to end
    busy.join()
    client.infer("slow", [tensor(rows(1))])
    assert server.log().count(RUNNING) == runs + 1  # the late one never ran


def test_a_cancelled_call_does_not_hold_back_its_batch_mates(client: Any, server: Any, busy: Any) -> None:
    answers: list[Any] = []
    done = threading.Semaphore(0)

    def note(result: Any, error: Any) -> None:
        answers.append((result, error))
        done.release()

    calls = [client.async_infer("slow", [tensor(rows(value))], note) for value in (1, 2, 3)]
    server.wait_for_metric(PENDING, 3)
    calls[1].cancel()
    for _ in calls:
        assert done.acquire(timeout=30)
    results = sorted(result.as_numpy("y")[0, 0] for result, error in answers if error is None)
    assert results == pytest.approx([1, 3])
    (error,) = [error for _, error in answers if error is not None]
    assert "CANCELLED" in str(error)
    assert "model 'slow': running 2 requests" in server.log()
    assert "model 'slow': running 3 requests" not in server.log()


def test_a_call_cancelled_during_its_batch_leaves_the_model_answering(client: Any, server: Any) -> None:
    runs = server.log().count(RUNNING)
    call = client.async_infer("slow", [tensor(rows(1))], lambda result, error: None)
    server.wait_for_log(RUNNING, runs + 1)
    call.cancel()
    assert client.infer("slow", [tensor(rows(2))]).as_numpy("y")[0, 0] == pytest.approx(2)


def test_a_full_queue_says_when_to_come_back(client: Any, server: Any, stub: Any, busy: Any) -> None:
    eight = [tensor(rows(*range(8)))]
    callers = [threading.Thread(target=client.infer, args=("slow", eight)) for _ in range(4)]
    for caller in callers:
        caller.start()
    server.wait_for_metric(PENDING, 4)
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(one_row("slow"))
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "32 rows are waiting" in error.details()
    assert dict(error.trailing_metadata())["grpc-retry-pushback-ms"] == "100"
    for caller in callers:
        caller.join()


def test_the_health_service_tells_the_status_of_each_model(server: Any) -> None:
    with grpc.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        def status(service: str) -> Any:
            return health.Check(health_pb2.HealthCheckRequest(service=service)).status

        assert status("double") == health_pb2.HealthCheckResponse.SERVING
        for service in ("", "inference.GRPCInferenceService", "broken"):
            assert status(service) == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.RpcError) as caught:
            status("nothing")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]


def test_reflection_lists_services_and_messages(server: Any) -> None:
    with grpc.insecure_channel(server.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert set(database.get_services()) == {
            "inference.GRPCInferenceService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("inference.GRPCInferenceService")
        assert len(service.methods) == 20
        assert "max_batch_size" in pool.FindMessageTypeByName("inference.ModelConfig").fields_by_name
        assert pool.FindServiceByName("grpc.health.v1.Health").methods_by_name["Check"]


def test_metrics_and_statistics_agree(client: Any, server: Any) -> None:
    client.infer("double", [tensor(rows(1))])
    with urllib.request.urlopen(server.metrics) as response:
        lines = response.read().decode().splitlines()
    stats = client.get_inference_statistics("double").model_stats[0]
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    where = '{model="double",version="1"}'
    assert float(values[f"nv_inference_request_success{where}"]) == stats.inference_stats.success.count
    assert float(values[f"nv_inference_count{where}"]) == stats.inference_count
    assert float(values[f"nv_inference_exec_count{where}"]) == stats.execution_count
    assert float(values[f"nv_inference_compute_infer_duration_us{where}"]) == pytest.approx(
        stats.inference_stats.compute_infer.ns / 1000
    )
    assert not any("nothing" in name or "broken" in name for name in values)
    assert {item.name for item in client.get_inference_statistics().model_stats} >= {"double", "slow", "plain"}


def test_both_protocol_modules_load_into_one_process() -> None:
    from mnserve.protocol import service_pb2 as ours

    assert ours is not service_pb2
    assert "tritonclient.grpc" in sys.modules
    wire = service_pb2.ModelReadyRequest(name="m", version="3").SerializeToString()
    assert ours.ModelReadyRequest.FromString(wire).version == "3"
