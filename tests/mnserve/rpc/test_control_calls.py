"""Calls that administer a server: what they do beside the event loop."""

from __future__ import annotations

import threading
from multiprocessing import shared_memory
from typing import Any, cast

import pytest

from mnserve.codec.shared_memory import Regions
from mnserve.models.registry import Models
from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.rpc import control_calls
from mnserve.rpc.control_calls import ControlCalls, ServiceOptions


class Loads:
    """Stands for the models; remembers what was to be loaded."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ModelConfig | None]] = []

    async def load(self, name: str, override: ModelConfig | None = None) -> None:
        self.seen.append((name, override))


async def test_a_configuration_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def read(text: str, name: str) -> ModelConfig:
        threads.append(threading.current_thread())
        return ModelConfig(name=name)

    monkeypatch.setattr(control_calls, "parse_override", read)
    loads = Loads()
    calls = ControlCalls(cast(Models, loads), ServiceOptions(control="explicit"))
    request = pb.RepositoryModelLoadRequest(model_name="m")
    await calls.RepositoryModelLoad(request, cast(Any, None))
    request.parameters["config"].string_param = "{}"
    await calls.RepositoryModelLoad(request, cast(Any, None))
    assert loads.seen == [("m", None), ("m", ModelConfig(name="m"))]
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_changes_of_settings_are_spread_and_applied_elsewhere() -> None:
    spread: list[tuple[str, bytes]] = []

    async def tell(method: str, message: bytes) -> None:
        spread.append((method, message))

    segment = shared_memory.SharedMemory(create=True, size=64)
    try:
        first, second = Regions(), Regions()
        calls = ControlCalls(cast(Models, Loads()), ServiceOptions(regions=first, spread=tell))
        other = ControlCalls(cast(Models, Loads()), ServiceOptions(regions=second))
        region = pb.SystemSharedMemoryRegisterRequest(name="r", key=f"/{segment.name}", byte_size=64)
        await calls.SystemSharedMemoryRegister(region, cast(Any, None))
        other.settings.apply(*spread.pop())
        assert second.status("r") == first.status("r")
        await calls.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest(name="r"), cast(Any, None))
        other.settings.apply(*spread.pop())
        assert second.status("") == {}
    finally:
        segment.close()
        segment.unlink()
