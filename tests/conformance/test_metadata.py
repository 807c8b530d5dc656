"""Metadata, statistics and health of a server and its models, and the fields of an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from open_inference import outputs_of, refused, request, rows
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc import service_pb2 as pb


def described(tensors: Any) -> list[tuple[str, str, list[int]]]:
    return [(item.name, item.datatype, list(item.shape)) for item in tensors]


def test_metadata_names_the_server_and_its_version(stub: Any) -> None:
    metadata = stub.ServerMetadata(pb.ServerMetadataRequest())
    assert metadata.name
    assert metadata.version


@pytest.mark.parametrize(
    ("model", "inputs", "outputs"),
    [
        ("double", [("x", "FP32", [-1, 4])], [("y", "FP32", [-1, 4]), ("z", "FP32", [-1, 4])]),
        ("pair", [("a", "FP32", [-1, 4]), ("b", "FP32", [-1, 4])], [("total", "FP32", [-1, 4])]),
        ("whole", [("x", "INT64", [2, 3])], [("y", "INT64", [2, 3])]),
        ("same_BYTES", [("x", "BYTES", [-1, -1])], [("y", "BYTES", [-1, -1])]),
        ("same_BF16", [("x", "BF16", [-1, -1])], [("y", "BF16", [-1, -1])]),
    ],
)
def test_metadata_of_a_model_shows_the_batch_as_minus_one(stub: Any, model: str, inputs: Any, outputs: Any) -> None:
    metadata = stub.ModelMetadata(pb.ModelMetadataRequest(name=model))
    assert (metadata.name, list(metadata.versions)) == (model, ["1"])
    assert metadata.platform
    assert described(metadata.inputs) == inputs
    assert described(metadata.outputs) == outputs


@pytest.mark.parametrize(("model", "size", "dims"), [("double", 8, [4]), ("small", 1, [4]), ("whole", 0, [2, 3])])
def test_configuration_has_the_largest_batch_and_sizes_without_it(
    stub: Any, model: str, size: int, dims: list[int]
) -> None:
    config = stub.ModelConfig(pb.ModelConfigRequest(name=model)).config
    assert (config.name, config.max_batch_size) == (model, size)
    first = {item.name: item for item in config.input}["x"]
    assert list(first.dims) == dims
    assert first.data_type == (model_config_pb2.TYPE_INT64 if model == "whole" else model_config_pb2.TYPE_FP32)


def test_the_largest_batch_is_taken(stub: Any) -> None:
    assert outputs_of(stub.ModelInfer(request("double", {"x": rows(*range(8))})))["z"].shape == (8, 4)


def test_a_model_without_a_batch_dimension_answers_in_its_own_shape(stub: Any) -> None:
    x = np.arange(6, dtype="<i8").reshape(2, 3)
    assert outputs_of(stub.ModelInfer(request("whole", {"x": x})))["y"].tolist() == x.tolist()


@pytest.mark.parametrize("sent", ["", "an id", "\u00e9\u4e2d", "x" * 2000])
def test_the_id_comes_back(stub: Any, sent: str) -> None:
    response = stub.ModelInfer(request("double", id=sent))
    assert (response.id, response.model_name, response.model_version) == (sent, "double", "1")


@pytest.mark.parametrize("wanted", [["z", "y"], ["y", "z"], ["z"], ["y"]])
def test_requested_outputs_come_in_their_order(stub: Any, wanted: list[str]) -> None:
    found = outputs_of(stub.ModelInfer(request("double", outputs=wanted)))
    assert list(found) == wanted
    assert all(array.tolist() == [[{"y": 2, "z": -1}[name]] * 4] for name, array in found.items())


def test_all_outputs_are_answered_if_none_is_named(stub: Any) -> None:
    assert sorted(outputs_of(stub.ModelInfer(request("double")))) == ["y", "z"]


@pytest.mark.parametrize(
    "parameters",
    [{"triton_enable_empty_final_response": True}, {"something_else": "here"}, {"priority": 1}, {"timeout": 0}],
    ids=str,
)
def test_parameters_that_change_nothing_are_tolerated(stub: Any, parameters: dict[str, Any]) -> None:
    message = request("double", outputs=["y"], parameters=parameters)
    assert outputs_of(stub.ModelInfer(message))["y"].tolist() == [[2] * 4]


@pytest.mark.parametrize("method", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_answered(stub: Any, method: grpc.Compression) -> None:
    message = request("double", {"x": rows(*range(8))})
    assert outputs_of(stub.ModelInfer(message, compression=method))["y"][:, 0].tolist() == list(range(0, 16, 2))


def test_statistics_count_requests_rows_and_runs(stub: Any, statistics: Callable[[str], Any]) -> None:
    before = statistics("pair")
    for size in (1, 3):
        stub.ModelInfer(request("pair", {"a": rows(*range(size)), "b": rows(*range(size))}))
    with refused("INVALID_ARGUMENT"):
        stub.ModelInfer(request("pair", {"a": rows(1)}))
    after = statistics("pair")
    assert after.inference_count - before.inference_count == 4
    assert after.execution_count - before.execution_count == 2
    assert after.last_inference > 0
    for name, rise in {"success": 2, "fail": 1, "queue": 2, "compute_infer": 2}.items():
        old, new = getattr(before.inference_stats, name), getattr(after.inference_stats, name)
        assert new.count - old.count == rise, name
        assert new.ns >= old.ns
    sizes = {item.batch_size: item.compute_infer.count for item in after.batch_stats}
    assert sizes[1] >= 1
    assert sizes[3] >= 1


def test_statistics_without_a_name_cover_all_models(stub: Any) -> None:
    found = {item.name for item in stub.ModelStatistics(pb.ModelStatisticsRequest()).model_stats}
    assert {"double", "pair", "slow", "versions"} <= found
    assert "nothing" not in found


def test_the_health_service_tells_the_status_of_each_model(channel: Any) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    kinds = health_pb2.HealthCheckResponse

    def status(service: str) -> int:
        return int(health.Check(health_pb2.HealthCheckRequest(service=service)).status)

    assert status("double") == kinds.SERVING
    assert status("versions") == kinds.SERVING  # its highest version that is ready answers
    for service in ("broken", "", "inference.GRPCInferenceService"):
        assert status(service) == kinds.NOT_SERVING
    with refused("NOT_FOUND"):
        status("nothing")
    watch = health.Watch(health_pb2.HealthCheckRequest(service="double"), timeout=60)
    assert next(watch).status == kinds.SERVING
    watch.cancel()
