"""Fixtures for every room: tiny ONNX models in Triton's layout, whose answers are known; runs; a browser."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # for tests that import ONNX Runtime before our packages do
sys.path.insert(0, str(Path(__file__).parent / "browser"))
sys.path.insert(0, str(Path(__file__).parent / "exporter"))
sys.path.insert(0, str(Path(__file__).parent / "servers"))
from chromium import Chromium

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_configure() -> None:
    """Makes tests independent of what this process inherited.

    Servers of tests are on this machine, where no proxy of the environment finds them. A shell starts its background
    jobs with SIGINT ignored; commands that inherit that go on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1", "localhost", "::1")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leaves modules and tests, which stay to the end, out of each search for garbage: it would take half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@dataclass(frozen=True, kw_only=True)
class ColourModel:
    """Writes a classifier that answers which channel of an image is brightest on average.

    Its logits are the channel means of the pixels, 0..255 or 0..1 as the input's type says, times ``gain``.
    """

    name: str
    datatype: str = "UINT8"
    dims: tuple[int, ...] = (3, 4, 6)
    max_batch_size: int = 4
    labels: tuple[str, ...] | None = ("red", "green", "blue")
    """``mn.labels``; None leaves the parameters out, as a foreign model would."""
    probabilities: bool = True
    """Whether there is an output ``probabilities`` beside ``logits``."""
    gain: float = 1.0
    config: str = ""
    """More lines of config.pbtxt."""
    write_config: bool = True

    def write(self, repository: Path) -> Path:
        """Makes REPOSITORY/NAME and returns it."""
        import onnx
        from onnx import TensorProto, helper

        element = {"UINT8": TensorProto.UINT8, "FP32": TensorProto.FLOAT}[self.datatype]
        dims = [size if size > 0 else f"side{axis}" for axis, size in enumerate(self.dims)]
        batched = ["batch", *dims]
        classes = self.dims[0]
        nodes = [
            helper.make_node("Cast", ["image"], ["pixels"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["pixels", "axes"], ["means"], keepdims=0),
            helper.make_node("Mul", ["means", "gain"], ["logits"]),
            helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
        ]
        outputs = ["logits", "probabilities"] if self.probabilities else ["logits"]
        graph = helper.make_graph(
            nodes if self.probabilities else nodes[:-1],
            "colours",
            [helper.make_tensor_value_info("image", element, batched)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", classes]) for name in outputs],
            [
                helper.make_tensor("axes", TensorProto.INT64, [2], [2, 3]),
                helper.make_tensor("gain", TensorProto.FLOAT, [], [self.gain]),
            ],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        folder = repository / self.name
        (folder / "1").mkdir(parents=True)
        onnx.save(model, folder / "1" / "model.onnx")
        if self.write_config:
            (folder / "config.pbtxt").write_text(self._config(outputs))
        return folder

    def _config(self, outputs: list[str]) -> str:
        scale = "0..255" if self.datatype == "UINT8" else "0..1"
        stated: dict[str, Any] = {}
        if self.labels is not None:
            stated = {
                "mn.labels": list(self.labels),
                "mn.input": {"layout": "NCHW", "color": "RGB" if self.dims[0] == 3 else "L", "scale": scale},
            }
        lines = [
            f'name: "{self.name}"',
            'platform: "onnxruntime_onnx"',
            'backend: "onnxruntime"',
            f"max_batch_size: {self.max_batch_size}",
            f'input {{ name: "image" data_type: TYPE_{self.datatype} dims: {list(self.dims)} }}',
            *(f'output {{ name: "{one}" data_type: TYPE_FP32 dims: [{self.dims[0]}] }}' for one in outputs),
            *(
                f"parameters {{ key: {json.dumps(key)} value {{ string_value: {json.dumps(json.dumps(value))} }} }}"
                for key, value in stated.items()
            ),
            self.config,
        ]
        return "\n".join(lines) + "\n"


class FakeCuda:
    """The CPU provider in place of CUDA: what sessions were asked for, and every run."""

    def __init__(self) -> None:
        self.options: list[dict[str, dict[str, str]]] = []
        """Provider -> its options, for every session."""
        self.runs: list[str | None] = []
        """Graph of every run; -1 for a run that is to have none, None for one that says nothing about graphs."""
        self.threads: set[int] = set()
        """Threads in which runs were bound to buffers."""
        self.refusal = ""
        """What a session says that shall capture graphs; empty for one that does."""


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """CUDA, as far as that goes without a GPU: everything but capture and replay is real."""
    import threading

    import onnxruntime as ort

    from mnserve.engines.device import Device

    fake, cpu = FakeCuda(), ["CPUExecutionProvider"]

    class Session(ort.InferenceSession):  # type: ignore[misc]
        def __init__(self, path: Path, *, providers: Any, **named: Any) -> None:
            self._asked = [item if isinstance(item, str) else item[0] for item in providers]
            given = dict(item for item in providers if not isinstance(item, str))
            fake.options.append(given)
            if fake.refusal and "enable_cuda_graph" in given.get("CUDAExecutionProvider", {}):
                raise RuntimeError(fake.refusal)
            super().__init__(path, providers=cpu, **named)

        def get_providers(self) -> list[str]:
            return self._asked

        def run_with_iobinding(self, binding: Any, options: Any = None) -> None:
            fake.threads.add(threading.get_ident())
            fake.runs.append(options.get_run_config_entry("gpu_graph_id"))
            super().run_with_iobinding(binding, options)

        def run(self, names: Any, feeds: Any, options: Any = None) -> Any:
            fake.runs.append(None if options is None else options.get_run_config_entry("gpu_graph_id"))
            return super().run(names, feeds, options)

    monkeypatch.setattr(ort, "InferenceSession", Session)
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider", *cpu])
    monkeypatch.setattr("mnserve.engines.onnxruntime.cuda_device", lambda options: Device())
    return fake


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Captured output may hold lone surrogates, which cannot be sent from one test process to another."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a finished run of every family on digits: small, trained for two epochs, named after the family.

    Dictionaries have the paper's start, after which they hardly act in two epochs.
    """
    from mntrain.config import load_experiment
    from mntrain.models.families import FAMILIES
    from mntrain.training.fit import fit
    from mntrain.training.run_folder import FitOptions

    folder = tmp_path_factory.mktemp("runs")
    dictionary = ["--meta_neighborhoods.entries", "60", "--meta_neighborhoods.init", "paper"]
    for family in FAMILIES:
        overrides = ["--family", family, "--name", family, "--backbone.width", "0.5", "--training.epochs", "2"]
        fit(
            load_experiment("digits", [*overrides, *dictionary]),
            FitOptions(runs=folder, quiet=True),
        )
    return folder


@pytest.fixture(scope="session")
def one_operator_table() -> Iterator[None]:
    """Lets PyTorch's exporter build its table of operators once for each operator set, not for each of many exports."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    build = cache(ONNXRegistry.from_torchlib)

    def copy(*words: Any, **options: Any) -> ONNXRegistry:
        built, registry = build(*words, **options), ONNXRegistry()
        registry._opset_version = built.opset_version
        registry.functions = {name: list(decompositions) for name, decompositions in built.functions.items()}
        return registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(copy))
        yield


@pytest.fixture(scope="session")
def kept_exports(one_operator_table: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lets PyTorch's exporter run once for each network, also where several test processes export it."""
    import torch
    from kept_exports import KeptExports

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "exports"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.onnx.export", KeptExports(folder, torch.onnx.export))
        yield


@pytest.fixture(autouse=True)
def unchanged_logger() -> Iterator[None]:
    """Gives the next test the log of mnserve as it was: commands and log settings change its level and handlers."""
    logger, root = logging.getLogger("mnserve"), logging.getLogger()
    before = (logger.level, logger.propagate, root.level, list(root.handlers))
    yield
    logger.propagate = before[1]
    logger.setLevel(before[0])
    root.setLevel(before[2])
    if list(root.handlers) != before[3]:
        root.handlers[:] = before[3]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty model repository."""
    path = tmp_path / "repository"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def write_colour_model() -> Callable[..., Path]:
    """Writes a :class:`ColourModel` anywhere: ``write_colour_model(repository, "name", max_batch_size=8)``."""

    def write(repository: Path, name: str, **fields: Any) -> Path:
        return ColourModel(name=name, **fields).write(repository)

    return write


@pytest.fixture
def colour_model(repository: Path, write_colour_model: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a :class:`ColourModel` into ``repository``: ``colour_model("name", max_batch_size=8)``."""
    return partial(write_colour_model, repository)


@pytest.fixture(scope="session")
def write_onnx_model() -> Callable[..., Path]:
    """Writes any ONNX graph anywhere and returns the folder of the model.

    ``write_onnx_model(repository, "twice", [("Add", ["x", "x"], ["y"])], {"x": ("FLOAT", ["batch", 4])}, {"y": ...})``;
    further keywords: ``initializers`` (name -> array), ``config`` (text of config.pbtxt), ``version``.
    """
    from onnx import TensorProto, helper, numpy_helper

    def infos(tensors: dict[str, tuple[str, list[Any]]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(key, getattr(TensorProto, kind), shape)
            for key, (kind, shape) in tensors.items()
        ]

    def write(
        repository: Path,
        name: str,
        nodes: list[Any],
        inputs: dict[str, tuple[str, list[Any]]],
        outputs: dict[str, tuple[str, list[Any]]],
        *,
        initializers: dict[str, Any] | None = None,
        config: str | None = None,
        version: int = 1,
    ) -> Path:
        made = [helper.make_node(*node) if isinstance(node, tuple) else node for node in nodes]
        graph = helper.make_graph(
            made,
            name,
            infos(inputs),
            infos(outputs),
            [numpy_helper.from_array(array, key) for key, array in (initializers or {}).items()],
        )
        versions = {"": 20} | {node.domain: 3 for node in made if node.domain}
        opsets = [helper.make_opsetid(domain, number) for domain, number in versions.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        folder = repository / name
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / "model.onnx").write_bytes(model.SerializeToString())
        if config is not None:
            (folder / "config.pbtxt").write_text(config)
        return folder

    return write


@pytest.fixture
def onnx_model(repository: Path, write_onnx_model: Callable[..., Path]) -> Callable[..., Path]:
    """Writes any ONNX graph into ``repository``: ``onnx_model("double", [("Add", ["x", "x"], ["y"])], …)``."""
    return partial(write_onnx_model, repository)


@pytest.fixture
def double_model(onnx_model: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a model whose output ``y`` is twice its input ``x``: ``double_model("name", width=4)``."""

    def write(name: str = "double", *, width: int | str = 4, **fields: Any) -> Path:
        tensor = ("FLOAT", ["batch", width])
        return onnx_model(name, [("Add", ["x", "x"], ["y"])], {"x": tensor}, {"y": tensor}, **fields)

    return write


@pytest.fixture(scope="module")
def browser_flags() -> tuple[str, ...]:
    """Further options of Chromium; a module may have its own."""
    return ()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, browser_flags: tuple[str, ...]) -> Iterator[Chromium]:
    """Headless Chromium; a test that wants it is skipped where there is none."""
    executable = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if executable is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with Chromium(executable, tmp_path_factory.mktemp("profile"), browser_flags) as page:
        yield page
