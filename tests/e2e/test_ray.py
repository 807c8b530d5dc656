"""Replicas on a Ray cluster of two nodes on this machine: calls through Ray Serve's proxies, and past them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mnserve.client.balancing import BALANCED_OPTIONS, balanced_target
from mnserve.client.replicas import ReplicaChannel, list_replicas
from mnserve.errors import ServerUnreachableError
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))
from models import write_models
from replicas.cluster import RayCluster, ray_cluster

if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed (pip install '.[ray]')", allow_module_level=True)

pytestmark = pytest.mark.timeout(300)

SERVED = ("double", "versions", "slow", "small")
TOKEN = "correct-horse-battery-staple-01"
WITH_TOKEN = (("authorization", f"Bearer {TOKEN}"),)
ROWS = np.arange(4, dtype=np.float32).reshape(1, 4)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four models of the conformance suite; ``versions`` has version 1 alone."""
    every, folder = tmp_path_factory.mktemp("every"), tmp_path_factory.mktemp("ray") / "models"
    write_models(every)
    folder.mkdir()
    for name in SERVED:
        shutil.copytree(every / name, folder / name)
    shutil.move(folder / "versions" / "2", folder.parent / "version-2")
    shutil.rmtree(folder / "versions" / "3")
    return folder


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> str:
    """File with the one good token."""
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.touch(0o600)
    path.write_text(f"{TOKEN}\n")
    return str(path)


@pytest.fixture(scope="module")
def cluster(repository: Path) -> Iterator[RayCluster]:
    """Two nodes with a replica each, and a proxy each."""
    with ray_cluster() as running:
        running.deploy(repository=str(repository), run_timeout=1.0, drain_timeout=5.0)
        yield running


@pytest.fixture
def proxy(cluster: RayCluster) -> Iterator[grpc.Channel]:
    """Channel to both proxies that tries again what is UNAVAILABLE."""
    with grpc.insecure_channel(balanced_target(cluster.proxies), options=BALANCED_OPTIONS) as channel:
        wait_for_replicas(channel, 2)
        yield channel


def wait_for_replicas(channel: grpc.Channel, count: int, seconds: float = 90.0) -> list[str]:
    """Waits until the list has so many replicas."""
    found: list[str] = []

    def complete() -> bool:
        with contextlib.suppress(ServerUnreachableError):  # one of them is ending
            found[:] = list_replicas(channel)
        return len(found) == count

    wait_until(complete, seconds)
    return found


def wait_until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def request(model: str = "double", array: np.ndarray[Any, Any] = ROWS, **fields: Any) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name=model, **fields)
    message.inputs.add(name="x", datatype="FP32", shape=array.shape)
    message.raw_input_contents.append(array.tobytes())
    return message


def answer_of(response: pb.ModelInferResponse) -> list[float]:
    return np.frombuffer(response.raw_output_contents[0], np.float32).tolist()


def tensors(array: np.ndarray[Any, Any] = ROWS) -> list[triton.InferInput]:
    tensor = triton.InferInput("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return [tensor]


def listed(channel: grpc.Channel, *metadata: tuple[str, str]) -> list[dict[str, Any]]:
    call: Any = channel.unary_unary("/mnserve.Replicas/ListReplicas")
    replicas: list[dict[str, Any]] = json.loads(call(b"", timeout=20, metadata=metadata))["replicas"]
    return replicas


def code_of(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    """Status and words of a call that fails."""
    with pytest.raises(grpc.RpcError) as refused:
        call()
    return refused.value.code(), refused.value.details()  # type: ignore[attr-defined]


def check_tokens(cluster: RayCluster, proxy: grpc.Channel, app: str) -> None:
    """Checks that the proxies tell nobody anything of an application without a token."""
    name, missing = ("application", app), grpc.StatusCode.UNAUTHENTICATED
    stub = GRPCInferenceServiceStub(proxy)
    assert code_of(lambda: listed(proxy, name))[0] is missing
    code, words = code_of(lambda: stub.ModelInfer(request("nothing"), metadata=(name,), timeout=20))
    assert (code, "double" in words) == (missing, False)
    assert code_of(lambda: list(stub.ModelStreamInfer(iter([request()]), metadata=(name,), timeout=20)))[0] is missing
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{cluster.http}/{app}", timeout=20)
    with refused.value as answer:
        assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "token" in json.load(answer)["error"]
    asked = urllib.request.Request(f"{cluster.http}/{app}", headers=dict(WITH_TOKEN))
    with urllib.request.urlopen(asked, timeout=20) as page:
        over_http = {replica["grpc"] for replica in json.load(page)["replicas"]}
    assert over_http == {replica["grpc"] for replica in listed(proxy, name, *WITH_TOKEN)}
    assert "double" in code_of(lambda: stub.ModelInfer(request("nothing"), metadata=(name, *WITH_TOKEN), timeout=20))[1]


class Callers:
    """Threads that call without a pause, and keep every answer and every error."""

    def __init__(self, call: Callable[[], list[float]], count: int = 4) -> None:
        self.answers: list[list[float]] = []
        self.errors: list[BaseException] = []
        self._call = call
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(self._call())
            except Exception as error:  # noqa: BLE001 (the test looks at them)
                self.errors.append(error)

    def more(self, count: int = 40) -> None:
        """Waits for so many more answers."""
        enough = len(self.answers) + count
        wait_until(lambda: len(self.answers) >= enough or bool(self.errors), 40)

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_tritonclient_works_unchanged(cluster: RayCluster, proxy: grpc.Channel) -> None:
    client = triton.InferenceServerClient(cluster.proxies[0])
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("double")
    assert not client.is_model_ready("nothing")
    assert client.get_server_metadata().name == "mnserve"
    assert [item.name for item in client.get_model_metadata("double").inputs] == ["x"]
    assert client.get_model_config("double").config.max_batch_size == 8
    assert sorted({item.name for item in client.get_model_repository_index().models}) == sorted(SERVED)
    result = client.infer("double", tensors(), request_id="7")
    assert result.as_numpy("y").tolist() == (2 * ROWS).tolist()
    assert result.get_response().id == "7"
    client.unregister_system_shared_memory()
    client.close()
    health = health_pb2_grpc.HealthStub(proxy)
    assert health.Check(health_pb2.HealthCheckRequest(service="double")).status == 1


def test_a_stream_answers_in_order_and_goes_on_after_a_fault(cluster: RayCluster, proxy: grpc.Channel) -> None:
    client = triton.InferenceServerClient(cluster.proxies[1])
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for index in range(4):
        client.async_stream_infer("double", tensors(ROWS + index), request_id=str(index))
    client.async_stream_infer("nothing", tensors())
    client.async_stream_infer("double", tensors())
    results = [answers.get(timeout=20) for _ in range(6)]
    client.stop_stream()
    client.close()
    assert [result.as_numpy("y")[0, 0] for result, _ in results[:4]] == [0, 2, 4, 6]
    assert "unknown model" in str(results[4][1])
    assert results[5][1] is None


@pytest.mark.parametrize(
    ("call", "message", "code", "words"),
    [
        ("ModelInfer", request("nothing"), "NOT_FOUND", "there is no model 'nothing'"),
        ("ModelInfer", request(model_version="one"), "INVALID_ARGUMENT", "version"),
        ("ModelInfer", request(model_version="9"), "NOT_FOUND", "no version 9"),
        ("ModelInfer", request(array=np.zeros((1, 5), np.float32)), "INVALID_ARGUMENT", "shape"),
        ("ModelInfer", request(array=np.zeros((9, 4), np.float32)), "INVALID_ARGUMENT", "at most 8"),
        ("ModelInfer", request(array=np.full((1, 4), np.nan, np.float32)), "INVALID_ARGUMENT", "NaN"),
        ("ModelConfig", pb.ModelConfigRequest(name="nothing"), "NOT_FOUND", "nothing"),
        ("ModelStatistics", pb.ModelStatisticsRequest(name="nothing"), "NOT_FOUND", "nothing"),
        ("RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="double"), "UNIMPLEMENTED", "serve deploy"),
        ("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="double"), "UNIMPLEMENTED", "replica"),
        ("LogSettings", pb.LogSettingsRequest(), "UNIMPLEMENTED", "--log-level"),
        ("TraceSetting", pb.TraceSettingRequest(), "UNIMPLEMENTED", "--trace-rate"),
        ("SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="a"), "UNIMPLEMENTED", "switched off"),
        ("CudaSharedMemoryRegister", pb.CudaSharedMemoryRegisterRequest(name="a"), "UNIMPLEMENTED", "tensors"),
    ],
)
def test_faults_have_the_codes_of_a_server(proxy: grpc.Channel, call: str, message: Any, code: str, words: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        getattr(GRPCInferenceServiceStub(proxy), call)(message, timeout=20)
    assert refused.value.code().name == code  # type: ignore[attr-defined]
    assert words in refused.value.details()  # type: ignore[attr-defined]
    assert "Traceback" not in refused.value.details()  # type: ignore[attr-defined]
    assert not [key for key, _ in refused.value.trailing_metadata() if key == "mnserve-status"]  # type: ignore[attr-defined]


def test_bytes_that_are_no_message_are_a_fault_of_the_caller(proxy: grpc.Channel) -> None:
    call: Any = proxy.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    with pytest.raises(grpc.RpcError) as refused:
        call(b"\xff\xff", timeout=20)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]


def test_a_full_queue_says_when_to_try_again(cluster: RayCluster, proxy: grpc.Channel) -> None:
    message = request("small", ROWS)
    message.inputs.add(name="turns", datatype="INT64", shape=[1, 1])
    message.raw_input_contents.append(np.array([[2000]], np.int64).tobytes())
    with grpc.insecure_channel(cluster.proxies[0], options=[("grpc.enable_retries", 0)]) as once:
        stub = GRPCInferenceServiceStub(once)
        calls = [stub.ModelInfer.future(message, timeout=30) for _ in range(30)]
        ended = [call.exception() for call in calls]
    refused = [error for error in ended if error is not None]
    assert refused
    assert len(refused) < len(ended)
    for error in refused:
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "grpc-retry-pushback-ms" in dict(error.trailing_metadata())


def test_statistics_are_those_of_all_replicas(proxy: grpc.Channel) -> None:
    stub = GRPCInferenceServiceStub(proxy)
    replicas = list_replicas(proxy)
    assert len(replicas) == 2
    before = stub.ModelStatistics(pb.ModelStatisticsRequest(name="double")).model_stats[0].inference_count
    for url in replicas:
        with grpc.insecure_channel(url.removeprefix("grpc://")) as direct:
            answer_of(GRPCInferenceServiceStub(direct).ModelInfer(request(), timeout=20))
    after = stub.ModelStatistics(pb.ModelStatisticsRequest(name="double")).model_stats[0].inference_count
    assert after == before + 2


def test_clients_balance_over_the_replicas_that_are_listed(cluster: RayCluster, proxy: grpc.Channel) -> None:
    with urllib.request.urlopen(f"{cluster.http}/mnserve", timeout=20) as page:
        over_http = json.load(page)["replicas"]
    assert sorted(replica["grpc"] for replica in over_http) == sorted(list_replicas(proxy))
    assert all(replica["models"] == sorted(SERVED) for replica in over_http)
    target = balanced_target([replica["grpc"] for replica in over_http])
    client = triton.InferenceServerClient(target, channel_args=list(BALANCED_OPTIONS))
    for _ in range(10):
        assert client.infer("double", tensors()).as_numpy("y").tolist() == (2 * ROWS).tolist()
    client.close()
    counts = []
    for replica in over_http:
        with urllib.request.urlopen(replica["metrics"], timeout=20) as page:
            text = page.read().decode()
        counts += [
            float(line.split()[-1])
            for line in text.splitlines()
            if line.startswith("nv_inference_request_success") and 'model="double"' in line
        ]
    assert len(counts) == 2
    assert min(counts) >= 5


@pytest.mark.parametrize("way", ["proxy", "direct"])
def test_a_killed_replica_fails_no_call_of_a_client_that_tries_again(
    cluster: RayCluster, proxy: grpc.Channel, way: str
) -> None:
    before = {replica["replica"] for replica in listed(proxy)}
    channel = proxy if way == "proxy" else ReplicaChannel(cluster.proxies, refresh_seconds=1.0)
    stub = GRPCInferenceServiceStub(channel)
    with Callers(lambda: answer_of(stub.ModelInfer(request(), timeout=30))) as callers:
        callers.more()
        cluster.kill(min(before))
        callers.more()
        wait_until(
            lambda: len(names := {item["replica"] for item in listed(proxy)}) == 2 and min(before) not in names, 90
        )
        callers.more()
    if isinstance(channel, ReplicaChannel):
        replicas = sorted(list_replicas(proxy))
        wait_until(lambda: channel.urls == replicas, 30)  # the replacement has its share
        channel.close()
    assert callers.errors == []
    assert set(map(tuple, callers.answers)) == {tuple((2 * ROWS[0]).tolist())}


def test_a_new_version_takes_over_without_an_error(cluster: RayCluster, proxy: grpc.Channel, repository: Path) -> None:
    stub = GRPCInferenceServiceStub(proxy)
    one, two = (ROWS[0] + 1).tolist(), (ROWS[0] + 2).tolist()
    with Callers(lambda: answer_of(stub.ModelInfer(request("versions"), timeout=30))) as callers:
        callers.more()
        shutil.move(repository.parent / "version-2", repository / "versions" / "2")
        assert cluster.reload() == []
        wait_until(lambda: callers.answers[-1] == two or bool(callers.errors), 30)
        callers.more()
    assert callers.errors == []
    assert set(map(tuple, callers.answers)) == {tuple(one), tuple(two)}
    assert {tuple(answer) for answer in callers.answers[-20:]} == {tuple(two)}


def test_a_replica_with_a_broken_engine_is_replaced(cluster: RayCluster, proxy: grpc.Channel) -> None:
    before = {replica["replica"] for replica in listed(proxy)}
    message = request("slow", ROWS)
    message.inputs.add(name="turns", datatype="INT64", shape=[1, 1])
    message.raw_input_contents.append(np.array([[10**7]], np.int64).tobytes())
    once = grpc.insecure_channel(cluster.proxies[0], options=[("grpc.enable_retries", 0)])
    with once, pytest.raises(grpc.RpcError) as failed:
        GRPCInferenceServiceStub(once).ModelInfer(message, timeout=30)
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    wait_until(lambda: len(names := {item["replica"] for item in listed(proxy)}) == 2 and names != before, 90)


def test_the_command_runs_an_application_with_tokens_until_a_signal(
    cluster: RayCluster, proxy: grpc.Channel, repository: Path, tokens: str
) -> None:
    words = [sys.executable, "-m", "mnserve", "ray", str(repository), "--address", cluster.address, "--app", "second"]
    words += ["--grpc-port", str(cluster.ports["grpc"]), "--list-port", str(cluster.ports["http"]), "--cpus", "0"]
    words += ["--token-file", tokens, "--insecure-tokens"]
    metadata = (("application", "second"), *WITH_TOKEN)
    stub = GRPCInferenceServiceStub(proxy)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "serving by 1 replica on grpc://" in line
            assert answer_of(stub.ModelInfer(request(), metadata=metadata, timeout=30)) == (2 * ROWS[0]).tolist()
            check_tokens(cluster, proxy, "second")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert cluster.applications() == ["mnserve"]


def test_other_ports_than_those_of_the_proxies_are_refused(cluster: RayCluster, repository: Path) -> None:
    words = [sys.executable, "-m", "mnserve", "ray", str(repository), "--address", cluster.address, "--app", "third"]
    words += ["--grpc-port", "1", "--list-port", str(cluster.ports["http"]), "--cpus", "0"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert f"give --grpc-port {cluster.ports['grpc']} --list-port {cluster.ports['http']}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert cluster.applications() == ["mnserve"]


def test_models_with_replicas_of_their_own(cluster: RayCluster, repository: Path) -> None:
    cluster.deploy(repository=str(repository), separate=True, replicas=1, cpus=0.1, drain_timeout=5.0)
    with grpc.insecure_channel(balanced_target(cluster.proxies), options=BALANCED_OPTIONS) as channel:
        stub = GRPCInferenceServiceStub(channel)
        wait_until(lambda: len(listed(channel)) == len(SERVED), 30)
        assert sorted(model for replica in listed(channel) for model in replica["models"]) == sorted(SERVED)
        assert stub.ServerReady(pb.ServerReadyRequest()).ready
        assert answer_of(stub.ModelInfer(request("double"))) == (2 * ROWS[0]).tolist()
        assert answer_of(stub.ModelInfer(request("versions"))) == (ROWS[0] + 2).tolist()
        index = stub.RepositoryIndex(pb.RepositoryIndexRequest()).models
        assert sorted({item.name for item in index if item.state == "READY"}) == sorted(SERVED)
        counted = stub.ModelStatistics(pb.ModelStatisticsRequest()).model_stats
        assert {item.name: item.inference_count for item in counted}["double"] == 1
        streamed = list(stub.ModelStreamInfer(iter([request("double"), request("nothing"), request("versions")])))
        assert answer_of(streamed[0].infer_response) == (2 * ROWS[0]).tolist()
        assert "there is no model 'nothing'" in streamed[1].error_message
        assert answer_of(streamed[2].infer_response) == (ROWS[0] + 2).tolist()
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(request("nothing"), timeout=20)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(request("double", np.zeros((1, 5), np.float32)), timeout=20)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
        with Callers(lambda: answer_of(stub.ModelInfer(request("double"), timeout=30)), count=2) as callers:
            callers.more(10)
            (replica,) = [item["replica"] for item in listed(channel) if item["models"] == ["double"]]
            cluster.kill(replica, "double")
            callers.more(10)
        assert callers.errors == []
