"""Replicas in this process, behind Ray Serve's own gRPC server: everything but the workers of Ray."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "conformance"))
from models import write_models

# jsonschema, which Ray imports, does without it. It compiles a grammar for 3 s, and comes with a tool for bills of
# materials alone.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the conformance suite."""
    every, folder = tmp_path_factory.mktemp("every"), tmp_path_factory.mktemp("models")
    write_models(every)
    for name in ("double", "slow"):
        (every / name).rename(folder / name)
    return folder


class Proxy:
    """Ray Serve's gRPC server in front of one object, which it calls as its proxies call a replica."""

    def __init__(self, target: Any, lost: Callable[[], bool]) -> None:
        self.target, self._lost = target, lost
        internals = importlib.import_module("ray.serve._private.grpc_util")
        self._context = importlib.import_module("ray.serve.grpc_util").RayServegRPCContext
        self._ended = importlib.import_module("mnserve.distributed.proxied_context").StreamEndedError
        self._stream = internals.gRPCStreamingType.STREAM_STREAM
        self.server = internals.gRPCGenericServer(self._factory)

    def _factory(self, service_method: str, streaming_type: Any) -> Any:
        method = getattr(self.target, service_method.rpartition("/")[2])

        async def answer(request: bytes, context: Any) -> bytes:
            if self._lost():
                context.set_code(grpc.StatusCode.INTERNAL)
                context.set_details("The actor died unexpectedly")
                return b""
            carried = pickle.loads(pickle.dumps(self._context(context)))
            response = await method(pickle.loads(pickle.dumps(request)), grpc_context=carried)
            pickle.loads(pickle.dumps(carried))._set_on_grpc_context(context)
            data: bytes = response.SerializeToString()
            return data

        async def answer_stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            carried = self._context(context)

            async def messages() -> AsyncIterator[bytes]:
                async for request in requests:
                    yield request

            try:
                async for response in method(messages(), grpc_context=carried):
                    carried._set_on_grpc_context(context)
                    yield response.SerializeToString()
            except self._ended:
                context.set_code(carried.code())
                context.set_details(carried.details())

        return answer_stream if streaming_type == self._stream else answer


@pytest.fixture
async def replicas(monkeypatch: pytest.MonkeyPatch, repository: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts replicas in this process: ``await replicas(only=("double",), run_timeout=1)``."""
    replica = importlib.import_module("mnserve.distributed.replica")
    settings_from_arguments = importlib.import_module("mnserve.distributed.arguments").settings_from_arguments
    monkeypatch.setattr(replica.ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    context = SimpleNamespace(replica_id=SimpleNamespace(unique_id="first"))
    monkeypatch.setattr(replica.serve, "get_replica_context", lambda: context)
    monkeypatch.setattr(replica, "configure", lambda *_: None)  # the log of this process stays with pytest
    started: list[Any] = []

    async def start(only: tuple[str, ...] | None = None, **arguments: Any) -> Any:
        given = {"repository": str(repository), "log_level": "error", "drain_timeout": 2.0, **arguments}
        made = replica.Replica(settings_from_arguments(given), "", only)

        async def ask_all(method: str, *args: str, **_seconds: float) -> list[Any]:
            answer = await getattr(made, method)(*args)
            return [answer] if answer else []

        monkeypatch.setattr(made, "_ask_all", ask_all)
        await made.reconfigure({"revision": "1"})
        started.append(made)
        return made

    yield start
    for one in started:
        await one.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Awaitable[grpc.aio.Channel]]]:
    """Opens a channel to a proxy in front of a replica or a router: ``await connect(target)``.

    With ``lost`` the proxy fails, where that says so, as one does whose replica has died.
    """
    ingress = importlib.import_module("mnserve.distributed.ingress")
    async with contextlib.AsyncExitStack() as stack:

        async def start(target: Any, lost: Callable[[], bool] = lambda: False) -> grpc.aio.Channel:
            proxy = Proxy(target, lost)
            ingress.add_to_server(None, proxy.server)
            port = proxy.server.add_insecure_port("127.0.0.1:0")
            await proxy.server.start()
            stack.push_async_callback(proxy.server.stop, 0)
            channel: grpc.aio.Channel = await stack.enter_async_context(
                grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.enable_retries", 0)])
            )
            return channel

        yield start


class Handle:
    """Stands for Ray Serve's handle of a deployment: its methods have ``remote``."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.lost = False

    def __getattr__(self, name: str) -> Any:
        async def remote(*args: Any) -> Any:
            if self.lost:
                raise RuntimeError("ActorDiedError")
            return await getattr(self.target, name)(*args)

        return SimpleNamespace(remote=remote)


@pytest.fixture
def handle_of() -> type[Handle]:
    """Stands for Ray Serve's handle of a deployment with one replica."""
    return Handle
