"""Models and versions: which one answers, and what is said of those that are not there or not ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from open_inference import outputs_of, refused, request
from tritonclient.grpc import service_pb2 as pb

Call = Callable[[Any, str, str], Any]
CALLS: dict[str, Call] = {
    "ModelInfer": lambda stub, name, version: stub.ModelInfer(request(name, model_version=version)),
    "ModelMetadata": lambda stub, name, version: stub.ModelMetadata(
        pb.ModelMetadataRequest(name=name, version=version)
    ),
    "ModelConfig": lambda stub, name, version: stub.ModelConfig(pb.ModelConfigRequest(name=name, version=version)),
    "ModelStatistics": lambda stub, name, version: stub.ModelStatistics(
        pb.ModelStatisticsRequest(name=name, version=version)
    ),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))


def ready(stub: Any, name: str, version: str = "") -> bool:
    return bool(stub.ModelReady(pb.ModelReadyRequest(name=name, version=version)).ready)


@every_call
@pytest.mark.parametrize("version", ["", "1"])
def test_unknown_models_are_not_found(stub: Any, call: Call, version: str) -> None:
    with refused("NOT_FOUND", "'nothing'"):
        call(stub, "nothing", version)


@every_call
@pytest.mark.parametrize("version", ["4", "0", "999999999999999999"])
def test_unknown_versions_are_not_found(stub: Any, call: Call, version: str) -> None:
    with refused("NOT_FOUND", "'versions'", version):
        call(stub, "versions", version)


@every_call
@pytest.mark.parametrize(("name", "version"), [("broken", ""), ("broken", "1"), ("versions", "3")])
def test_a_version_that_is_there_and_not_ready_is_unavailable(stub: Any, call: Call, name: str, version: str) -> None:
    with refused("UNAVAILABLE", f"'{name}'", "not ready") as refusal:
        call(stub, name, version)
    assert refusal.pushback is not None


@every_call
@pytest.mark.parametrize("version", ["x", "-1", "1.0", " 1", "1e3", "\u0661", "v1"])
def test_a_version_that_is_no_integer_is_invalid(stub: Any, call: Call, version: str) -> None:
    with refused("INVALID_ARGUMENT", f"'{version}'"):
        call(stub, "versions", version)


def test_readiness_of_a_version_that_is_no_integer_is_invalid(stub: Any) -> None:
    with refused("INVALID_ARGUMENT", "'x'"):
        ready(stub, "double", "x")


def test_readiness_is_told_for_each_model_and_version(stub: Any) -> None:
    assert ready(stub, "double")
    assert [ready(stub, "versions", version) for version in ("", "1", "2", "3", "4")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert not ready(stub, "broken")
    assert not ready(stub, "nothing")
    assert stub.ServerLive(pb.ServerLiveRequest()).live
    assert not stub.ServerReady(pb.ServerReadyRequest()).ready  # not all that is in the repository can answer


@pytest.mark.parametrize(("asked", "answers"), [("", "2"), ("1", "1"), ("2", "2")])
def test_the_highest_ready_version_answers_unless_one_is_named(stub: Any, asked: str, answers: str) -> None:
    response = stub.ModelInfer(request("versions", model_version=asked))
    assert (response.model_name, response.model_version) == ("versions", answers)
    assert outputs_of(response)["y"].tolist() == [[1 + int(answers)] * 4]


def test_metadata_lists_the_versions_that_answer(stub: Any) -> None:
    assert list(stub.ModelMetadata(pb.ModelMetadataRequest(name="versions")).versions) == ["1", "2"]


def test_statistics_are_kept_for_each_version(stub: Any) -> None:
    found = stub.ModelStatistics(pb.ModelStatisticsRequest(name="versions")).model_stats
    assert [item.version for item in found] == ["1", "2"]
    (second,) = stub.ModelStatistics(pb.ModelStatisticsRequest(name="versions", version="2")).model_stats
    assert second.version == "2"


def test_the_index_tells_the_state_of_each_and_why(stub: Any) -> None:
    index = stub.RepositoryIndex(pb.RepositoryIndexRequest()).models
    states = {(item.name, item.version): item for item in index}
    assert states["versions", "2"].state == "READY"
    for key in (("versions", "3"), ("broken", "1")):
        assert states[key].state == "UNAVAILABLE"
        assert states[key].reason
    only = {(item.name, item.version) for item in stub.RepositoryIndex(pb.RepositoryIndexRequest(ready=True)).models}
    assert ("versions", "2") in only
    assert not {("versions", "3"), ("broken", "1")} & only
