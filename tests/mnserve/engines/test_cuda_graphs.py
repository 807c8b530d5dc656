"""The engine with CUDA graphs, as far as that goes without a GPU: the CPU provider stands in for CUDA.

Everything but capture and replay is real: sessions, buffers, bindings, padding, options of sessions and runs.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import EngineOptions
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.optional_outputs import CoreFirstEngine
from mnserve.errors import EngineLoadError, EngineRunError
from mnserve.models.loading import LoadOptions, load
from mnserve.models.registry import Models

WriteModel = Callable[..., Path]
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
OPTIONS = EngineOptions(providers=(CUDA, CPU), cuda_graph_batches=(2, 4), intra_op_threads=1)


def test_every_size_is_captured_at_once_and_replayed_by_its_number(cuda: Any, double_model: WriteModel) -> None:
    engine = OnnxRuntimeEngine(double_model() / "1" / "model.onnx", OPTIONS)
    assert [given[CUDA].get("enable_cuda_graph") for given in cuda.options] == ["1"]
    assert cuda.runs == ["1"] * 3 + ["2"] * 3
    cuda.runs.clear()
    for count in (1, 4, 2, 3, 5):
        x = np.random.default_rng(count).random((count, 4), np.float32)
        (found,) = engine.run({"x": x}, ["y"])
        np.testing.assert_array_equal(found, x * 2)
    assert cuda.runs == ["1", "2", "1", "2", "-1"]
    with pytest.raises(EngineRunError, match="Got: 3 Expected: 4"):
        engine.run({"x": np.zeros((1, 3), np.float32)}, ["y"])
    engine.close()
    with pytest.raises(EngineRunError, match="closed"):
        engine.run({"x": np.zeros((1, 4), np.float32)}, ["y"])


def test_without_sizes_nothing_is_captured(cuda: Any, double_model: WriteModel) -> None:
    options = EngineOptions(providers=(CUDA, CPU))
    engine = OnnxRuntimeEngine(double_model() / "1" / "model.onnx", options)
    assert "enable_cuda_graph" not in cuda.options[0][CUDA]
    engine.run({"x": np.zeros((2, 4), np.float32)}, ["y"])
    assert cuda.runs == [None]


@pytest.mark.parametrize(
    ("width", "kind", "why"), [("n", "FLOAT", "more open than the batch"), (4, "STRING", "is BYTES")]
)
def test_a_model_that_can_have_none_runs_without_and_says_so(
    cuda: Any, onnx_model: WriteModel, caplog: pytest.LogCaptureFixture, width: Any, kind: str, why: str
) -> None:
    tensor = (kind, ["batch", width])
    folder = onnx_model("m", [("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor})
    engine = OnnxRuntimeEngine(folder / "1" / "model.onnx", OPTIONS)
    assert why in caplog.text
    x = np.full((2, 4), b"a", object) if kind == "STRING" else np.ones((2, 4), np.float32)
    assert engine.run({"x": x}, ["y"])[0].shape == (2, 4)
    assert cuda.runs == ["-1"]


def test_a_model_that_cuda_cannot_capture_runs_without_and_says_so(
    cuda: Any, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    path = double_model() / "1" / "model.onnx"
    cuda.refusal = "This session cannot use the graph capture feature as requested by the user as the model has ..."
    engine = OnnxRuntimeEngine(path, OPTIONS)
    assert "runs without CUDA graphs: This session cannot use" in caplog.text
    assert engine.run({"x": np.ones((2, 4), np.float32)}, ["y"])[0].tolist() == [[2] * 4] * 2
    assert cuda.runs == [None]
    cuda.refusal = "no kernel image is available"
    with pytest.raises(EngineLoadError, match="no kernel image"):
        OnnxRuntimeEngine(path, OPTIONS)


def test_a_capture_that_fails_is_a_sentence(
    cuda: Any, double_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*fields: Any, **named: Any) -> None:
        raise RuntimeError("[ONNXRuntimeError] : 1 : FAIL : out of memory")

    monkeypatch.setattr(ort.InferenceSession, "run_with_iobinding", broken)
    with pytest.raises(
        EngineLoadError, match=r"cannot capture .*model.onnx at batch 2, 4: out of memory; ask for fewer"
    ):
        OnnxRuntimeEngine(double_model() / "1" / "model.onnx", OPTIONS)


def test_a_missing_provider_that_may_be_missing_leaves_no_graphs(
    double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    if CUDA in ort.get_available_providers():
        pytest.skip("this build has CUDA")
    options = EngineOptions(providers=(CUDA, CPU), cuda_graph_batches=(2,), allow_fallback=True)
    engine = OnnxRuntimeEngine(double_model() / "1" / "model.onnx", options)
    assert f"runs without CUDA graphs: {CUDA} is not there" in caplog.text
    assert engine.run({"x": np.ones((1, 4), np.float32)}, ["y"])[0].tolist() == [[2] * 4]


def test_each_file_of_a_model_replays_its_own_graphs(cuda: Any, onnx_model: WriteModel) -> None:
    """Each of the two files has buffers of its own; which runs depends on what is asked for."""
    tensor = ("FLOAT", ["batch", 2])
    nodes = [("Add", ["x", "x"], ["y"]), ("Mul", ["x", "x"], ["z"])]
    whole = onnx_model("whole", nodes, {"x": tensor}, {"y": tensor, "z": tensor})
    core = onnx_model("core", nodes[:1], {"x": tensor}, {"y": tensor})
    engine = CoreFirstEngine(*(OnnxRuntimeEngine(folder / "1" / "model.onnx", OPTIONS) for folder in (whole, core)))
    for value, wanted in ((3, ["y"]), (4, ["z", "y"]), (5, ["z"]), (6, ["y"])):
        x = np.full((3, 2), value, np.float32)
        right = {"y": x * 2, "z": x * x}
        for name, found in zip(wanted, engine.run({"x": x}, wanted), strict=True):
            np.testing.assert_array_equal(found, right[name])


def loaded(repository: Path, name: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Batch sizes that were captured for a model, by the sizes that were asked for."""
    options = LoadOptions(engine=EngineOptions(providers=(CUDA, CPU), cuda_graph_batches=sizes))
    engine = load(repository, name, 1, options).engine
    assert isinstance(engine, OnnxRuntimeEngine)
    return engine.graph_batches


def test_a_model_captures_what_its_batches_can_need(
    cuda: Any, repository: Path, double_model: WriteModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    double_model("small", config="max_batch_size: 3")
    double_model("default")
    assert loaded(repository, "small", (1, 2, 8, 64)) == (1, 2, 8)
    assert loaded(repository, "default", (1, 2, 8, 64, 128)) == (1, 2, 8, 64)
    assert not caplog.text
    shape = "data_type: TYPE_FP32 dims: [-1, 4]"
    double_model("sequence", config=f'input {{ name: "x" {shape} }} output {{ name: "y" {shape} }}')
    assert loaded(repository, "sequence", (1, 2)) == ()
    assert "'sequence' runs without CUDA graphs: its max_batch_size is 0" in caplog.text


async def test_a_model_is_loaded_and_run_on_one_thread(cuda: Any, repository: Path, double_model: WriteModel) -> None:
    """A graph belongs to the thread that captured it."""
    double_model("m")
    models = Models(repository, LoadOptions(engine=OPTIONS))
    await models.load_all()
    work = InferenceWork(feeds={"x": np.ones((1, 4), np.float32)}, rows=1, outputs=("y",))
    for _ in range(3):
        answer = await models.find("m").batcher.infer(work)
        assert answer.arrays[0].tolist() == [[2] * 4]
    assert len(cuda.threads) == 1
    assert threading.get_ident() not in cuda.threads
    await models.drain(20)
