"""Faults of a request: the status that each one gets, and what its message has to name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from open_inference import DTYPES, Tensor, add, bfloat16, numbers, outputs_of, refused, request, rows
from tritonclient.grpc import service_pb2 as pb

INVALID = "INVALID_ARGUMENT"
ONE, OTHER = numbers(rows(1)), numbers(rows(2))
PAIR = {"a": ONE, "b": OTHER}


class Fault(NamedTuple):
    """A request, and words that its refusal has to have."""

    message: Callable[[], Any]
    words: tuple[str, ...]


def fault(model: str, tensors: dict[str, Any], *words: str, **fields: Any) -> Fault:
    return Fault(lambda: request(model, tensors, **fields), words)


def one(tensor: Tensor, *words: str, model: str = "double") -> Fault:
    return fault(model, {"x": tensor}, "'x'", *words)


def twice() -> Any:
    message = request("double")
    add(message, "x", ONE)
    return message


def shaped(*sizes: int, raw: bytes = bytes(16)) -> Tensor:
    return Tensor("FP32", sizes, raw)


NAMES = {
    "no input": fault("double", {}, "'x'", "missing"),
    "one input of two missing": fault("pair", {"a": ONE}, "'b'", "missing"),
    "one input too many": fault("double", {"x": ONE, "extra": ONE}, "'extra'", "'x'"),
    "unknown input": fault("double", {"other": ONE}, "'other'", "'x'"),
    "input given twice": Fault(twice, ("'x'", "twice")),
    "unknown output": fault("double", {"x": ONE}, "'other'", "'y'", "'z'", outputs=["other"]),
    "one output too many": fault("double", {"x": ONE}, "'extra'", outputs=["y", "z", "extra"]),
    "output asked for twice": fault("double", {"x": ONE}, "'y'", "twice", outputs=["y", "y"]),
}
DATATYPES = {
    "another datatype": one(numbers(rows(1).astype("<f8")), "FP64", "FP32"),
    "of the same size": one(numbers(rows(1).view("<i4")), "INT32", "FP32"),
    "half for half": one(bfloat16(rows(1)), "BF16", "FP16", model="same_FP16"),
    "no datatype": one(Tensor("", (1, 4), bytes(16)), "''", "FP32"),
    "no such datatype": one(Tensor("FP7", (1, 4), bytes(16)), "FP7", "FP32"),
    "of the second input": fault("pair", {"a": ONE, "b": Tensor("INT8", (1, 4), bytes(4))}, "'b'", "INT8", "FP32"),
}
SHAPES = {
    "size": one(shaped(1, 3, raw=bytes(12)), "[1, 3]", "[-1, 4]"),
    "too few dimensions": one(shaped(4), "[4]", "[-1, 4]"),
    "too many dimensions": one(shaped(1, 4, 1), "[1, 4, 1]", "[-1, 4]"),
    "no dimensions": one(shaped(raw=bytes(4)), "[]", "[-1, 4]"),
    "negative batch": one(shaped(-1, 4), "[-1, 4]", "negative"),
    "negative size": one(shaped(1, -4), "[1, -4]", "[-1, 4]"),
    "both negative": one(shaped(-1, -4), "[-1, -4]", "[-1, 4]"),
    "batch 0": one(shaped(0, 4, raw=b""), "[0, 4]", "at least 1"),
    "batch over the maximum": one(numbers(rows(*range(9))), "9", "at most 8"),
    "batch beyond all memory": one(shaped(2**62, 4), str(2**62), "at most 8"),
    "size beyond all memory": one(shaped(1, 2**62), str(2**62), model="same_FP32"),
    "batch that differs": fault("pair", {"a": ONE, "b": numbers(rows(1, 2))}, "'b'", "2 rows", "expected 1"),
    "without a batch dimension": one(Tensor("INT64", (1, 2, 3), bytes(48)), "[1, 2, 3]", "[2, 3]", model="whole"),
    "size without a batch dimension": one(Tensor("INT64", (3, 2), bytes(48)), "[3, 2]", "[2, 3]", model="whole"),
}
SIZES = {
    "too few bytes": one(shaped(1, 4, raw=bytes(15)), "15", "16"),
    "too many bytes": one(shaped(1, 4, raw=bytes(17)), "17", "16"),
    "no bytes": one(shaped(1, 4, raw=b""), "0 bytes", "16"),
    "bytes for nothing": one(shaped(2, 0, raw=bytes(4)), "4 bytes", "expected 0", model="same_FP32"),
    "as of another datatype": one(Tensor("FP16", (1, 4), bytes(16)), "16", "8", model="same_FP16"),
    "of the second input": fault("pair", {"a": ONE, "b": shaped(1, 4, raw=bytes(12))}, "'b'", "12", "16"),
    "raw for one input of two": fault("pair", {"a": ONE, "b": Tensor("FP32", (1, 4))}, "1 raw", "2 inputs"),
    "typed, too few": one(Tensor("FP32", (1, 4), None, {"fp32_contents": [1, 2, 3]}), "3", "expected 4"),
    "neither raw nor typed": one(Tensor("FP32", (1, 4)), "0", "expected 4"),
}
NOT_FINITE = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("item", NAMES.values(), ids=list(NAMES))
def test_wrong_names_of_inputs_and_outputs_are_refused(stub: Any, item: Fault) -> None:
    refuse(stub, item)


@pytest.mark.parametrize("item", DATATYPES.values(), ids=list(DATATYPES))
def test_wrong_datatypes_are_refused(stub: Any, item: Fault) -> None:
    refuse(stub, item)


@pytest.mark.parametrize("item", SHAPES.values(), ids=list(SHAPES))
def test_wrong_shapes_are_refused(stub: Any, item: Fault) -> None:
    refuse(stub, item)


@pytest.mark.parametrize("item", SIZES.values(), ids=list(SIZES))
def test_wrong_sizes_in_bytes_are_refused(stub: Any, item: Fault) -> None:
    refuse(stub, item)


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_non_finite_raw_values_are_refused(stub: Any, datatype: str, value: float) -> None:
    """A classifier would answer NaN or infinity with an ordinary class."""
    array = np.array([[1, 2], [3, value]])
    tensor = bfloat16(array) if datatype == "BF16" else numbers(array.astype(DTYPES[datatype]))
    with refused(INVALID, "'x'", "1 values", "[1, 1]"):
        stub.ModelInfer(request(f"same_{datatype}", {"x": tensor}))


@pytest.mark.parametrize(("datatype", "field"), [("FP32", "fp32_contents"), ("FP64", "fp64_contents")])
def test_non_finite_typed_values_are_refused(stub: Any, datatype: str, field: str) -> None:
    tensor = Tensor(datatype, (2, 2), None, {field: [1, np.nan, np.inf, 2]})
    with refused(INVALID, "'x'", "2 values", "[0, 1]"):
        stub.ModelInfer(request(f"same_{datatype}", {"x": tensor}))


def test_non_finite_values_reach_models_that_allow_them(stub: Any) -> None:
    x = np.array([[1, np.nan, np.inf, -np.inf]], "<f4")
    np.testing.assert_array_equal(outputs_of(stub.ModelInfer(request("tolerant", {"x": x})))["y"], 2 * x)


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        pytest.param({"timeout": -1}, "timeout", id="negative timeout"),
        pytest.param({"timeout": "5"}, "timeout", id="timeout of another kind"),
        pytest.param({"priority": 3}, "priority", id="priority above the levels"),
        pytest.param({"priority": -1}, "priority", id="negative priority"),
    ],
)
def test_invalid_priorities_and_timeouts_are_refused(stub: Any, parameters: dict[str, Any], word: str) -> None:
    tensors = {"x": rows(1), "turns": np.zeros((1, 1), "<i8")}
    with refused(INVALID, f"'{word}'"):
        stub.ModelInfer(request("hasty", tensors, parameters=parameters))


def test_too_many_string_elements_are_refused(stub: Any) -> None:
    """Empty strings are small on the wire, and each is an object in memory."""
    many = 2**20 + 1
    with refused(INVALID, "'x'", str(many), "expected at most"):
        stub.ModelInfer(request("same_BYTES", {"x": Tensor("BYTES", (1, many), b"")}))


@pytest.mark.parametrize("what", ["raw contents", "parameters", "inputs", "parameters of an input", "outputs"])
def test_too_many_fields_of_a_message_are_refused(stub: Any, what: str) -> None:
    message = request("double")
    if what == "raw contents":
        message.raw_input_contents.extend([bytes(16)] * 70_000)
    for number in range(20_000):
        if what == "parameters":
            message.parameters[str(number)].int64_param = 1
        elif what == "inputs":
            message.inputs.add(name=str(number), datatype="FP32", shape=[1, 4])
        elif what == "parameters of an input":
            message.inputs[0].parameters[str(number)].int64_param = 1
        elif what == "outputs":
            message.outputs.add(name=str(number)).parameters["a"].int64_param = 1
    with refused(INVALID, "65536"):
        stub.ModelInfer(message)


def test_an_unregistered_shared_memory_region_is_refused(stub: Any) -> None:
    """INVALID_ARGUMENT where shared memory is offered, UNIMPLEMENTED where it is not."""
    offered = "system_shared_memory" in stub.ServerMetadata(pb.ServerMetadataRequest()).extensions
    message = request("double", {"x": Tensor("FP32", (1, 4))})
    message.inputs[0].parameters["shared_memory_region"].string_param = "nobody's"
    message.inputs[0].parameters["shared_memory_byte_size"].int64_param = 16
    with refused(INVALID if offered else "UNIMPLEMENTED"):
        stub.ModelInfer(message)


def test_a_message_that_does_not_parse_is_refused(channel: Any) -> None:
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    with refused(INVALID):
        call(b"\xff\xff\xff\xff")


def refuse(stub: Any, item: Fault) -> None:
    """Sends a fault twice, as a server may remember it, and a good request afterwards."""
    for _ in range(2):
        with refused(INVALID, *item.words):
            stub.ModelInfer(item.message())
    assert outputs_of(stub.ModelInfer(request("double")))["y"].tolist() == [[2] * 4]
