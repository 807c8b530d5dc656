"""GPUs of a server: how many there are, which one a process owns, and which models it has."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import text_format

from mnserve.engines import device
from mnserve.engines.base import EngineOptions
from mnserve.engines.device import cuda_device, server_devices
from mnserve.engines.fake import FakeEngine
from mnserve.engines.instance_groups import instances_here
from mnserve.engines.nvml import Nvml
from mnserve.engines.providers import CUDA, TENSORRT, ProviderOption, default_options
from mnserve.errors import ModelConfigError
from mnserve.models.load_options import LoadOptions
from mnserve.models.registry import Models
from mnserve.protocol.model_config_pb2 import ModelConfig
from mnserve.settings import ServeSettings

CPU = "CPUExecutionProvider"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Sets the number of GPUs that the driver tells; None for no driver."""
    monkeypatch.delenv(device.VISIBLE, raising=False)
    monkeypatch.setattr(device, "gpu_lines", lambda: ["Model: a", "Model: b", "Model: c"])

    def install(count: int | None) -> None:
        def start() -> None:
            if count is None:
                raise RuntimeError("Driver Not Loaded")

        module = SimpleNamespace(nvmlInit=start, nvmlDeviceGetCount=lambda: count)
        monkeypatch.setitem(sys.modules, "pynvml", module)

    return install


def options(*providers: str, device_id: str = "", **fields: Any) -> EngineOptions:
    given = (ProviderOption(provider=providers[0], key="device_id", value=device_id),) if device_id else ()
    return EngineOptions(providers=(*providers, CPU), provider_options=given, **fields)


def config(text: str) -> ModelConfig:
    return text_format.Parse(text, ModelConfig(name="m"))


def test_a_server_takes_every_gpu_that_cuda_shows(
    gpus: Callable[[int | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(4)
    assert server_devices(options(CUDA)) == server_devices(options(TENSORRT, CUDA)) == (0, 1, 2, 3)
    assert server_devices(EngineOptions()) == server_devices(options("OpenVINOExecutionProvider")) == ()
    assert server_devices(options(CUDA, device_id="2")) == (2,)
    for text, shown in (("1,3", (0, 1)), ("GPU-1f,GPU-2e", (0, 1)), ("0,9,1", (0,)), ("", ()), ("-1", ())):
        monkeypatch.setenv(device.VISIBLE, text)
        assert server_devices(options(CUDA)) == shown


def test_without_the_library_the_files_of_the_driver_tell_the_number(
    gpus: Callable[[int | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus(None)
    assert server_devices(options(CUDA)) == (0, 1, 2)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().count() is None
    assert server_devices(options(CUDA)) == (0, 1, 2)


def test_a_process_computes_on_its_own_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda_device(options(CUDA, device=3)).number == 3
    assert cuda_device(options(CUDA)).number == 0
    assert cuda_device(options(CUDA, device_id="1", device=3)).number == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = tmp_path / "model.onnx"
    model.write_bytes(b"")
    assert default_options(CUDA, model, 3)["device_id"] == "3"
    assert "device_id" not in default_options(CUDA, model)
    assert default_options(CPU, model, 3) == {}
    first, third = (default_options(TENSORRT, model, number) for number in (None, 3))
    assert third["trt_engine_cache_path"] == f"{first['trt_engine_cache_path']}/gpu3"
    assert third["device_id"] == "3"


def test_sessions_get_the_gpu_of_the_process(cuda: Any, double_model: Callable[..., Path], repository: Path) -> None:
    from mnserve.models.loading import load

    double_model("m")
    load(repository, "m", 1, LoadOptions(engine=options(CUDA, device=1, devices=(0, 1)))).close()
    assert {given[CUDA]["device_id"] for given in cuda.options} == {"1"}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", (1, 1, 1)),
        ("instance_group { count: 2 }", (2, 2, 2)),
        ("instance_group { gpus: [0, 2] }", (1, 0, 1)),
        ("instance_group { count: 2 gpus: 1 } instance_group { gpus: [1, 2] }", (0, 3, 1)),
        ("instance_group { count: 2 gpus: 1 } instance_group { kind: KIND_GPU }", (1, 3, 1)),
        ("instance_group { count: 3 kind: KIND_CPU }", (3, 0, 0)),
    ],
)
def test_groups_have_their_instances_on_each_of_their_gpus(text: str, counts: tuple[int, ...]) -> None:
    devices = (0, 1, 2)
    given = [options(CUDA, device=number, devices=devices) for number in devices]
    assert tuple(instances_here(config(text), one) for one in given) == counts


def test_gpus_that_the_server_lacks_are_refused() -> None:
    given = options(CUDA, device=0, devices=(0, 1))
    with pytest.raises(
        ModelConfigError, match=r"asks for gpus \[0, 5\], but the server computes on GPU 0, 1; name none"
    ):
        instances_here(config("instance_group { gpus: [0, 5] }"), given)


async def test_a_model_of_other_gpus_is_no_fault_of_this_process(
    repository: Path, double_model: Callable[..., Path]
) -> None:
    double_model("both", config="max_batch_size: 4 instance_group { count: 2 }")
    double_model("first", config="max_batch_size: 4 instance_group { gpus: 0 }")
    double_model("wrong", config="max_batch_size: 4 instance_group { gpus: 7 }")
    load_options = LoadOptions(
        engine=options(CUDA, device=1, devices=(0, 1)), factory=lambda path, options: FakeEngine()
    )
    models = Models(repository, load_options)
    await models.load_all()
    assert [(state.name, state.ready) for state in models.states()] == [("both", True), ("wrong", False)]
    assert models.find("both").model.instances == 2
    await models.load("first")
    assert "first" not in [state.name for state in models.states()]
    double_model("first", version=2)
    (repository / "first" / "config.pbtxt").write_text("max_batch_size: 4 instance_group { gpus: [1, 0] }")
    await models.load("first")
    assert models.find("first").version == 2
    (repository / "first" / "config.pbtxt").write_text("max_batch_size: 4 instance_group { gpus: 0 }")
    await models.load("first")
    assert "first" not in [state.name for state in models.states()]
    assert await models.drain(20)


def test_options_of_a_server_know_the_gpu_of_the_process() -> None:
    settings = ServeSettings(repository="models", providers=("cuda", "cpu"))
    assert LoadOptions.of_server(settings).engine.device is None
    engine = LoadOptions.of_server(settings, 1, (0, 1)).engine
    assert (engine.device, engine.devices, engine.providers) == (1, (0, 1), (CUDA, CPU))
