"""Servers with tokens, with limits of the rate of requests, and with limits of the calls at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from open_inference import arrived, outputs_of, refused, request
from process_tree import memory
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

INFER, OTHER, CONTROL = "infer-0123456789abcdef", "other-0123456789abcdef", "control-0123456789abcdef"
PATIENCE = 60


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of tokens, as an operator writes it."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text(f"{INFER} infer\n{OTHER}\n{CONTROL} control\n")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def calls(start_own: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The calls of a server that is started with these options."""
    channels: list[grpc.Channel] = []

    def start(*options: str) -> Any:
        channels.append(grpc.insecure_channel(start_own(*options).address))
        return service_pb2_grpc.GRPCInferenceServiceStub(channels[-1])

    yield start
    for channel in channels:
        channel.close()


@pytest.fixture(scope="module")
def guarded(calls: Callable[..., Any], tokens: Path) -> Any:
    return calls("--token-file", str(tokens), "--model-control", "explicit", "--load-model", "double")


def bearer(token: str, scheme: str = "Bearer") -> list[tuple[str, str]]:
    return [("authorization", f"{scheme} {token}")]


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        bearer("nobody-0123456789abcdef"),
        bearer(INFER[:-1]),
        bearer(INFER, "Basic"),
        [*bearer(INFER), *bearer(INFER)],
    ],
    ids=["none", "unknown", "cut short", "another scheme", "two"],
)
def test_without_a_known_token_a_call_is_unauthenticated(guarded: Any, metadata: Any) -> None:
    for call, message in (
        (guarded.ModelInfer, request("double")),
        (guarded.ModelReady, pb.ModelReadyRequest(name="double")),
        (guarded.RepositoryModelLoad, pb.RepositoryModelLoadRequest(model_name="double")),
    ):
        with refused("UNAUTHENTICATED", "token") as refusal:
            call(message, metadata=metadata)
        assert INFER not in refusal.message
    with refused("UNAUTHENTICATED"):
        list(guarded.ModelStreamInfer(iter([request("double")]), metadata=metadata))


def test_a_known_token_is_let_in(guarded: Any) -> None:
    for token in (INFER, OTHER, CONTROL):
        assert outputs_of(guarded.ModelInfer(request("double"), metadata=bearer(token)))["y"].tolist() == [[2] * 4]
    (answer,) = guarded.ModelStreamInfer(iter([request("double")]), metadata=bearer(INFER))
    assert not answer.error_message


def test_calls_that_change_the_server_need_the_control_right(guarded: Any) -> None:
    load = pb.RepositoryModelLoadRequest(model_name="pair")
    for call, message in (
        (guarded.RepositoryModelLoad, load),
        (guarded.RepositoryModelUnload, pb.RepositoryModelUnloadRequest(model_name="double")),
        (guarded.TraceSetting, pb.TraceSettingRequest()),
        (guarded.LogSettings, pb.LogSettingsRequest()),
        (guarded.SystemSharedMemoryStatus, pb.SystemSharedMemoryStatusRequest()),
    ):
        with refused("PERMISSION_DENIED", "control"):
            call(message, metadata=bearer(INFER))
    guarded.RepositoryModelLoad(load, metadata=bearer(CONTROL))
    assert guarded.ModelReady(pb.ModelReadyRequest(name="pair"), metadata=bearer(INFER)).ready


def test_probes_need_no_token(guarded: Any) -> None:
    assert guarded.ServerLive(pb.ServerLiveRequest()).live
    assert guarded.ServerReady(pb.ServerReadyRequest()).ready


def test_a_caller_beyond_its_rate_is_told_when_to_come_back_and_others_go_on(
    calls: Callable[..., Any], tokens: Path
) -> None:
    stub = calls("--token-file", str(tokens), "--rate-limit", "0.5", "--rate-burst", "2")
    for _ in range(2):
        stub.ModelInfer(request("double"), metadata=bearer(INFER))
    with refused("RESOURCE_EXHAUSTED", "0.5 requests a second") as refusal:
        stub.ModelInfer(request("double"), metadata=bearer(INFER))
    assert refusal.pushback is not None
    assert 0 < int(refusal.pushback) <= 2000
    stub.ModelInfer(request("double"), metadata=bearer(OTHER))  # another identity on the same connection
    assert stub.ModelReady(pb.ModelReadyRequest(name="double"), metadata=bearer(INFER)).ready  # no inference
    time.sleep(int(refusal.pushback) / 1000 + 0.05)
    stub.ModelInfer(request("double"), metadata=bearer(INFER))
    with refused("RESOURCE_EXHAUSTED"):
        for _ in range(2):
            stub.ModelInfer(request("double"), metadata=bearer(INFER))


def test_calls_beyond_the_most_at_a_time_are_refused_until_one_ends(calls: Callable[..., Any]) -> None:
    stub = calls("--max-concurrent-requests", "2")
    ends = [threading.Event() for _ in range(2)]
    streams = [stub.ModelStreamInfer(open_until(end)) for end in ends]
    for stream in streams:
        assert not next(stream).error_message
    for _ in range(3):
        with refused("UNAVAILABLE", "--max-concurrent-requests") as refusal:
            stub.ModelInfer(request("double"), timeout=PATIENCE)
        assert refusal.pushback is not None
        assert stub.ServerLive(pb.ServerLiveRequest(), timeout=PATIENCE).live  # probes have places of their own
    ends[0].set()
    assert list(streams[0]) == []
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            answer = stub.ModelInfer(request("double"), timeout=PATIENCE)
        except grpc.RpcError:  # the end of the stream is not counted yet
            assert time.monotonic() < deadline
            continue
        assert outputs_of(answer)["y"].tolist() == [[2] * 4]
        break
    ends[1].set()
    assert list(streams[1]) == []
    arrived(stub)


def open_until(end: threading.Event) -> Iterator[Any]:
    """One request, and then a stream that stays open."""
    yield request("double")
    end.wait(PATIENCE)


@pytest.fixture(scope="module")
def open_server(start_own: Callable[..., Any]) -> Any:
    """A server without tokens and limits."""
    return start_own()


def test_thousands_of_calls_at_once_are_answered_or_refused_with_a_reason(open_server: Any) -> None:
    with grpc.insecure_channel(open_server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(request("double"), timeout=PATIENCE) for _ in range(4000)]
        codes = {call.code() for call in calls}  # waits
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
        for call in calls:
            if call.code() is grpc.StatusCode.UNAVAILABLE:
                assert "try again later" in call.details()
                assert "grpc-retry-pushback-ms" in dict(call.trailing_metadata())


def test_large_messages_to_a_watch_take_little_memory(open_server: Any) -> None:
    """Few arrive at a time, whoever sends them, and none is kept."""
    size = 16 * 2**20
    with grpc.insecure_channel(open_server.address, options=[("grpc.max_send_message_length", -1)]) as channel:
        watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")
        before = peak_bytes(open_server)
        calls = [watch(b"\x0a" + bytes(size)) for _ in range(20)]
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(pb.ServerLiveRequest(), timeout=PATIENCE).live
        assert {call.code() for call in calls} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert peak_bytes(open_server) - before < 14 * size


def peak_bytes(server: Any) -> int:
    return memory(server.process.pid, "VmHWM")
