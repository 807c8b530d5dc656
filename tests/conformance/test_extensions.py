"""Disabled extensions answer UNIMPLEMENTED, and extensions are listed only where their calls work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from open_inference import refused, request
from tritonclient.grpc import service_pb2 as pb

Call = Callable[[Any], Any]
EXTENSIONS: dict[str, Call] = {
    "model_configuration": lambda stub: stub.ModelConfig(pb.ModelConfigRequest(name="double")),
    "statistics": lambda stub: stub.ModelStatistics(pb.ModelStatisticsRequest(name="double")),
    "model_repository": lambda stub: stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="double")),
    "system_shared_memory": lambda stub: stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest()),
    "cuda_shared_memory": lambda stub: stub.CudaSharedMemoryRegister(
        pb.CudaSharedMemoryRegisterRequest(name="a", byte_size=4)
    ),
    "trace": lambda stub: stub.TraceSetting(pb.TraceSettingRequest()),
    "logging": lambda stub: stub.LogSettings(pb.LogSettingsRequest()),
    "sequence": lambda stub: stub.ModelInfer(request("double", parameters={"sequence_id": 1})),
    "classification": lambda stub: stub.ModelInfer(classified()),
}
NOT_LISTED = ("binary_tensor_data", "parameters")
"""Extensions of HTTP, or without a call that would show them."""
SWITCHED_OFF: dict[str, tuple[Call, str]] = {
    "CudaSharedMemoryRegister": (EXTENSIONS["cuda_shared_memory"], "CudaSharedMemoryRegister"),
    "sequence": (EXTENSIONS["sequence"], "sequence_id"),
}
NO_SEQUENCES: dict[str, dict[str, Any]] = {
    "number": {"sequence_id": 0},
    "text": {"sequence_id": ""},
    "flags": {"sequence_id": 0, "sequence_start": False, "sequence_end": False},
}


def classified() -> Any:
    message = request("double", outputs=["y"])
    message.outputs[0].parameters["classification"].int64_param = 2
    return message


@pytest.mark.parametrize(("call", "word"), SWITCHED_OFF.values(), ids=list(SWITCHED_OFF))
def test_disabled_extensions_are_unimplemented(stub: Any, call: Call, word: str) -> None:
    with refused("UNIMPLEMENTED", word):
        call(stub)


def test_regions_of_a_gpu_are_none_and_can_all_be_unregistered(stub: Any) -> None:
    for name in ("", "a"):
        stub.CudaSharedMemoryUnregister(pb.CudaSharedMemoryUnregisterRequest(name=name))
    assert not stub.CudaSharedMemoryStatus(pb.CudaSharedMemoryStatusRequest()).regions
    with refused("NOT_FOUND", "'a'"):
        stub.CudaSharedMemoryStatus(pb.CudaSharedMemoryStatusRequest(name="a"))


@pytest.mark.parametrize("parameters", NO_SEQUENCES.values(), ids=list(NO_SEQUENCES))
def test_an_id_of_nothing_is_no_sequence(stub: Any, parameters: dict[str, Any]) -> None:
    assert stub.ModelInfer(request("double", parameters=parameters)).outputs


@pytest.mark.parametrize(
    ("value", "count", "words"),
    [("int64_param", 0, "is 0"), ("int64_param", -3, "is -3"), ("string_param", "2", "int64")],
)
def test_a_number_of_classes_is_a_number_above_0(stub: Any, value: str, count: Any, words: str) -> None:
    message = request("double", outputs=["y"])
    setattr(message.outputs[0].parameters["classification"], value, count)
    with refused("INVALID_ARGUMENT", "'y'", "classification", words):
        stub.ModelInfer(message)


def test_classes_come_as_texts_best_first(stub: Any) -> None:
    """Score, index and label, for each row; of equal scores the lower index first."""
    tensors = {"x": np.array([[1, 4, 2, 3], [0.5, 0.5, -1, 0.25]], dtype="<f4")}
    message = request("double", tensors, outputs=["z", "y"])
    message.outputs[1].parameters["classification"].int64_param = 3
    answer = stub.ModelInfer(message)
    plain, classes = answer.outputs
    assert (plain.name, plain.datatype, classes.name) == ("z", "FP32", "y")
    assert (classes.datatype, list(classes.shape)) == ("BYTES", [2, 3])
    wanted = ["8.000000:1", "6.000000:3", "4.000000:2", "1.000000:0", "1.000000:1", "0.500000:3"]
    texts = b"".join(len(text).to_bytes(4, "little") + text.encode() for text in wanted)
    assert answer.raw_output_contents[1] == texts
    message.outputs[1].parameters["classification"].int64_param = 2**40
    assert list(stub.ModelInfer(message).outputs[1].shape) == [2, 4]


def test_an_extension_is_listed_exactly_where_its_call_works(stub: Any) -> None:
    listed = set(stub.ServerMetadata(pb.ServerMetadataRequest()).extensions)
    codes: dict[str, grpc.StatusCode] = {}
    for name, call in EXTENSIONS.items():
        try:
            call(stub)
        except grpc.RpcError as error:
            codes[name] = error.code()
    works = EXTENSIONS.keys() - codes.keys()
    assert set(codes.values()) <= {grpc.StatusCode.UNIMPLEMENTED}, codes
    assert listed & set(EXTENSIONS) == works
    assert not listed - set(EXTENSIONS) - {"schedule_policy", *NOT_LISTED}


def test_unknown_calls_are_unimplemented(channel: Any) -> None:
    with refused("UNIMPLEMENTED"):
        channel.unary_unary("/inference.GRPCInferenceService/ModelGuess")(b"")
