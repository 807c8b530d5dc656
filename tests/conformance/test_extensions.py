"""Disabled extensions answer UNIMPLEMENTED, and extensions are listed only where their calls work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from open_inference import refused, request
from tritonclient.grpc import service_pb2 as pb

Call = Callable[[Any], Any]
EXTENSIONS: dict[str, Call] = {
    "model_configuration": lambda stub: stub.ModelConfig(pb.ModelConfigRequest(name="double")),
    "statistics": lambda stub: stub.ModelStatistics(pb.ModelStatisticsRequest(name="double")),
    "model_repository": lambda stub: stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="double")),
    "system_shared_memory": lambda stub: stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest()),
    "cuda_shared_memory": lambda stub: stub.CudaSharedMemoryStatus(pb.CudaSharedMemoryStatusRequest()),
    "trace": lambda stub: stub.TraceSetting(pb.TraceSettingRequest()),
    "logging": lambda stub: stub.LogSettings(pb.LogSettingsRequest()),
    "sequence": lambda stub: stub.ModelInfer(request("double", parameters={"sequence_id": 1})),
    "classification": lambda stub: stub.ModelInfer(classified()),
}
NOT_LISTED = ("binary_tensor_data", "parameters")
"""Extensions of HTTP, or without a call that would show them."""
SWITCHED_OFF: dict[str, tuple[Call, str]] = {
    "CudaSharedMemoryStatus": (EXTENSIONS["cuda_shared_memory"], "CudaSharedMemoryStatus"),
    "CudaSharedMemoryRegister": (
        lambda stub: stub.CudaSharedMemoryRegister(pb.CudaSharedMemoryRegisterRequest(name="a", byte_size=4)),
        "CudaSharedMemoryRegister",
    ),
    "CudaSharedMemoryUnregister": (
        lambda stub: stub.CudaSharedMemoryUnregister(pb.CudaSharedMemoryUnregisterRequest(name="a")),
        "CudaSharedMemoryUnregister",
    ),
    "sequence": (EXTENSIONS["sequence"], "sequence_id"),
    "classification": (EXTENSIONS["classification"], "classification"),
}


def classified() -> Any:
    message = request("double", outputs=["y"])
    message.outputs[0].parameters["classification"].int64_param = 2
    return message


@pytest.mark.parametrize(("call", "word"), SWITCHED_OFF.values(), ids=list(SWITCHED_OFF))
def test_disabled_extensions_are_unimplemented(stub: Any, call: Call, word: str) -> None:
    with refused("UNIMPLEMENTED", word):
        call(stub)


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
