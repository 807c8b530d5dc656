"""Fixed batch sizes on real sessions: the CPU provider binds buffers as CUDA does, without a graph to replay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.engines.base import EngineOptions, TensorSpec
from mnserve.engines.device import Device, cuda_device
from mnserve.engines.fixed_batches import FixedBatches, obstacle
from mnserve.engines.onnxruntime import OnnxRuntimeEngine
from mnserve.engines.providers import parse_option

WriteModel = Callable[..., Path]


class Bound:
    """A model with fixed batches, and the engine that answers without them."""

    def __init__(self, folder: Path, sizes: tuple[int, ...]) -> None:
        path = folder / "1" / "model.onnx"
        self.engine = OnnxRuntimeEngine(path, EngineOptions(intra_op_threads=1))
        self.session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.fixed = FixedBatches(self.session, self.engine.inputs, self.engine.outputs, sizes, Device())


@pytest.fixture
def double(double_model: WriteModel) -> Bound:
    return Bound(double_model(), (4, 1, 2, 4))


def rows(count: int, start: float = 0.0) -> dict[str, Any]:
    return {"x": start + np.arange(4 * count, dtype=np.float32).reshape(count, 4)}


def answer(bound: Bound, feeds: dict[str, Any], outputs: tuple[str, ...] = ("y",)) -> list[Any]:
    found = bound.fixed.run(feeds, outputs)
    assert found is not None
    return found


def test_two_inputs_give_two_answers(double: Bound) -> None:
    for start in (1.0, 50.0, -3.0):
        feeds = rows(2, start)
        np.testing.assert_array_equal(answer(double, feeds)[0], feeds["x"] * 2)


def test_batches_in_between_are_padded_and_sizes_may_alternate(double: Bound) -> None:
    for count in (3, 1, 4, 2, 3, 4, 1, 3):
        feeds = rows(count, 10.0 * count)
        (found,) = answer(double, feeds)
        assert found.shape == (count, 4)
        np.testing.assert_array_equal(found, feeds["x"] * 2)


def test_answers_are_not_reused_by_a_later_call(double: Bound) -> None:
    first = [answer(double, rows(count, 7.0))[0] for count in (2, 3)]
    kept = [array.copy() for array in first]
    for count in (2, 3):
        answer(double, rows(count, 99.0))
    for array, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.owndata  # no view of a buffer


def test_padding_holds_nothing_of_an_earlier_call(onnx_model: WriteModel) -> None:
    """Each row gives the sum over its batch: what is in the padding shows: copies of the last row."""
    shape = ("FLOAT", ["batch", 2])
    nodes = [("ReduceSum", ["x", "axes"], ["total"]), ("Sub", ["x", "x"], ["zero"]), ("Add", ["zero", "total"], ["y"])]
    axes = {"axes": np.array([0], np.int64)}
    bound = Bound(onnx_model("total", nodes, {"x": shape}, {"y": shape}, initializers=axes), (4,))
    answer(bound, {"x": np.full((3, 2), 100, np.float32)})
    assert answer(bound, {"x": np.ones((2, 2), np.float32)})[0].tolist() == [[4, 4]] * 2


def test_rows_do_not_depend_on_the_padding(colour_model: WriteModel) -> None:
    bound = Bound(colour_model("colours"), (1, 4, 16))
    images = np.random.default_rng(0).integers(0, 256, (11, 3, 4, 6), np.uint8)
    outputs = ("probabilities", "logits")
    for count in (1, 2, 4, 5, 11):
        feeds = {"image": images[:count]}
        for found, right in zip(answer(bound, feeds, outputs), bound.engine.run(feeds, outputs), strict=True):
            np.testing.assert_allclose(found, right, atol=1e-6)


def test_read_only_and_scattered_inputs(double: Bound) -> None:
    for count in (2, 3):
        x = rows(count)["x"]
        frozen = np.frombuffer(x.tobytes(), np.float32).reshape(x.shape)
        for given in (frozen, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
            np.testing.assert_array_equal(answer(double, {"x": given})[0], x * 2)


@pytest.mark.parametrize(
    "feeds",
    [
        rows(5),
        {"x": np.zeros((2, 3), np.float32)},
        {"x": np.zeros((2, 4), np.float64)},
        {"x": np.zeros((4, 2), np.float32)},
        {"x": np.float32(1)},
        {"z": np.zeros((2, 4), np.float32)},
        rows(2) | {"z": np.zeros((2, 4), np.float32)},
        {},
    ],
)
def test_feeds_that_fit_no_buffer_are_left_to_the_session(double: Bound, feeds: dict[str, Any]) -> None:
    assert double.fixed.run(feeds, ("y",)) is None


def test_inputs_of_different_batches_fit_no_buffer(onnx_model: WriteModel) -> None:
    shape = ("FLOAT", ["batch", 2])
    bound = Bound(onnx_model("sum", [("Add", ["a", "b"], ["y"])], {"a": shape, "b": shape}, {"y": shape}), (4,))
    one, two = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)
    assert answer(bound, {"b": two, "a": two * 2})[0].tolist() == [[3, 3]] * 2
    assert bound.fixed.run({"a": one, "b": two}, ("y",)) is None


@pytest.mark.parametrize("kind", ["BOOL", "UINT8", "INT64", "FLOAT16", "FLOAT", "DOUBLE"])
def test_every_element_type_passes_the_buffers(onnx_model: WriteModel, kind: str) -> None:
    tensor = (kind, ["batch", 2])
    bound = Bound(onnx_model("same", [("Identity", ["x"], ["y"])], {"x": tensor}, {"y": tensor}), (2, 4))
    dtype = DATATYPES[bound.engine.inputs[0].datatype].dtype
    for array in (np.array([[0, 1], [1, 1]], dtype), np.array([[1, 0]] * 3, dtype)):
        (found,) = answer(bound, {"x": array})
        assert found.dtype == dtype
        assert found.tolist() == array.tolist()


def spec(shape: tuple[int, ...], datatype: str = "FP32") -> TensorSpec:
    return TensorSpec(name="t", datatype=datatype, shape=shape)


def test_the_reason_is_given_for_models_without_fixed_batches() -> None:
    good = [spec((-1, 3))]
    assert obstacle(good, good) is None
    assert obstacle([spec((-1,))], good) is None
    for wrong, why in (
        (spec((-1, -1)), "more open than the batch"),
        (spec((2, 3)), "no batch of any size"),
        (spec(()), "no batch of any size"),
        (spec((-1, 3), "BYTES"), "is BYTES"),
        (spec((-1, 3), "BF16"), "is BF16"),
    ):
        assert why in str(obstacle([wrong], good))
        assert why in str(obstacle(good, [wrong]))
    assert obstacle([], good) == "it has no inputs"


def test_buffers_lie_on_the_gpu_that_computes() -> None:
    providers = ("CUDAExecutionProvider",)
    assert cuda_device(EngineOptions(providers=providers)) == Device(kind="cuda", number=0)
    options = EngineOptions(providers=providers, provider_options=(parse_option("cuda.device_id=1"),))
    assert cuda_device(options) == Device(kind="cuda", number=1)
