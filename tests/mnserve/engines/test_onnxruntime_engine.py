"""ONNX Runtime behind our interface."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from mnserve.engines.base import EngineOptions, TensorSpec
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.session_settings import SessionSettings
from mnserve.errors import EngineInputError, EngineLoadError, EngineRunError, SettingsError

WriteModel = Callable[..., Path]
OPTIONS = EngineOptions(intra_op_threads=1)


def identity(write: WriteModel, kind: str) -> OnnxRuntimeEngine:
    tensor = (kind, ["batch", 2])
    folder = write(kind.lower(), [("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor})
    return OnnxRuntimeEngine(folder / "1" / "model.onnx", OPTIONS)


def test_the_engine_has_the_specs_of_the_file_and_runs_it(double_model: WriteModel) -> None:
    engine = OnnxRuntimeEngine(double_model(width="n") / "1" / "model.onnx", OPTIONS)
    assert engine.inputs == (TensorSpec(name="x", datatype="FP32", shape=(-1, -1)),)
    assert engine.outputs == (TensorSpec(name="y", datatype="FP32", shape=(-1, -1)),)
    assert engine.providers == ("CPUExecutionProvider",)
    assert dict(engine.metadata) == {}
    raw = np.arange(6, dtype="<f4").tobytes()
    read_only = np.frombuffer(raw, dtype="<f4").reshape(2, 3)
    (answer,) = engine.run({"x": read_only}, ["y"])
    assert answer.tolist() == (read_only * 2).tolist()
    engine.close()
    with pytest.raises(EngineRunError, match="closed"):
        engine.run({"x": read_only}, ["y"])


@pytest.mark.parametrize(
    ("kind", "datatype", "dtype"),
    [
        ("BOOL", "BOOL", "?"),
        ("UINT8", "UINT8", "u1"),
        ("UINT16", "UINT16", "u2"),
        ("UINT32", "UINT32", "u4"),
        ("UINT64", "UINT64", "u8"),
        ("INT8", "INT8", "i1"),
        ("INT16", "INT16", "i2"),
        ("INT32", "INT32", "i4"),
        ("INT64", "INT64", "i8"),
        ("FLOAT16", "FP16", "f2"),
        ("BFLOAT16", "BF16", "u2"),
        ("FLOAT", "FP32", "f4"),
        ("DOUBLE", "FP64", "f8"),
    ],
)
def test_every_element_type_is_served_unchanged(onnx_model: WriteModel, kind: str, datatype: str, dtype: str) -> None:
    engine = identity(onnx_model, kind)
    assert engine.inputs[0].datatype == datatype
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    (answer,) = engine.run({"x": array}, ["y"])
    assert answer.dtype == array.dtype
    assert answer.tolist() == array.tolist()


def test_strings_are_utf_8_and_others_are_refused(onnx_model: WriteModel) -> None:
    engine = identity(onnx_model, "STRING")
    (answer,) = engine.run({"x": np.array([[b"a", "é".encode()]], dtype=object)}, ["y"])
    assert answer.tolist() == [["a", "é"]]
    with pytest.raises(EngineInputError, match=r"'x'.*UTF-8"):
        engine.run({"x": np.array([[b"a", b"\xff"]], dtype=object)}, ["y"])


def test_a_batch_of_the_wrong_width_raises_and_prints_nothing(
    double_model: WriteModel, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = OnnxRuntimeEngine(double_model() / "1" / "model.onnx", OPTIONS)
    with pytest.raises(EngineRunError, match="Got: 3 Expected: 4"):
        engine.run({"x": np.zeros((1, 3), np.float32)}, ["y"])
    assert capfd.readouterr() == ("", "")  # the runtime prints nothing of its own


@pytest.mark.parametrize("content", [b"", b"garbage", None])
def test_damaged_files_are_refused(
    double_model: WriteModel, capfd: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None
) -> None:
    whole = (double_model() / "1" / "model.onnx").read_bytes()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(EngineLoadError, match=r"cannot load .*damaged\.onnx"):
        OnnxRuntimeEngine(path, OPTIONS)
    assert capfd.readouterr() == ("", "")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"none\.onnx"):
        OnnxRuntimeEngine(tmp_path / "none.onnx", OPTIONS)


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="this build has CUDA")
def test_a_missing_provider_is_not_replaced_silently(double_model: WriteModel) -> None:
    path = double_model() / "1" / "model.onnx"
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    with pytest.raises(EngineLoadError, match="CUDAExecutionProvider is not in this build"):
        OnnxRuntimeEngine(path, EngineOptions(providers=wanted))
    engine = OnnxRuntimeEngine(path, EngineOptions(providers=wanted, allow_fallback=True, intra_op_threads=1))
    assert engine.providers == ("CPUExecutionProvider",)
    with pytest.raises(EngineLoadError, match="CUDAExecutionProvider"):
        OnnxRuntimeEngine(path, EngineOptions(providers=wanted[:1], allow_fallback=True))


def test_invalid_options_are_refused() -> None:
    for fields in ({"providers": ()}, {"intra_op_threads": -1}, {"inter_op_threads": 0}, {"intra_op_threads": 1025}):
        with pytest.raises(SettingsError):
            EngineOptions(**fields)  # type: ignore[arg-type]


def test_threads_are_those_that_the_process_may_use(double_model: WriteModel, monkeypatch: pytest.MonkeyPatch) -> None:
    given, asleep = list[int](), list[str]()
    session = ort.InferenceSession

    def spy(path: Path, sess_options: ort.SessionOptions, **fields: Any) -> ort.InferenceSession:
        given.append(sess_options.intra_op_num_threads)
        with contextlib.suppress(RuntimeError):  # it has no such entry
            asleep.append(sess_options.get_session_config_entry("session.intra_op.allow_spinning"))
        return session(path, sess_options=sess_options, **fields)

    monkeypatch.setattr("mnserve.engines.sessions.available_cpus", lambda: 3)
    monkeypatch.setattr(ort, "InferenceSession", spy)
    path = double_model() / "1" / "model.onnx"
    for threads in (0, 2):
        OnnxRuntimeEngine(path, EngineOptions(intra_op_threads=threads))
    OnnxRuntimeEngine(path, EngineOptions(session=SessionSettings(spinning=False)))
    assert (given, asleep) == ([3, 2, 3], ["0"])
