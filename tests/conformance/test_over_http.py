"""The protocol over HTTP: the same faults, tensors and models as over gRPC, in JSON and with binary tensors."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from http_form import LENGTH, STATUSES, HttpServer, body_of, outputs_of
from open_inference import DTYPES, Tensor, bfloat16, numbers, request, rows, texts
from test_status_of_faults import DATATYPES, NAMES, NOT_FINITE, SHAPES, SIZES, Fault

FAULTS = {f"{what}: {name}": item for what, table in (
    ("names", NAMES),
    ("datatypes", DATATYPES),
    ("shapes", SHAPES),
    ("sizes", SIZES),
) for name, item in table.items()}  # fmt: skip
OTHER_WORDS = {
    "datatypes: no datatype": ("'x'", "''"),
    "sizes: raw for one input of two": ("'b'",),
    "sizes: neither raw nor typed": ("'x'", "no data"),
}
"""Faults that are told in other words, since a request of HTTP looks otherwise."""


@pytest.fixture(scope="module")
def server(http_address: str) -> Iterator[HttpServer]:
    item = HttpServer(http_address)
    yield item
    item.close()


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("name", FAULTS)
def test_faults_have_the_status_of_gRPC_and_its_words(server: HttpServer, name: str, binary: bool) -> None:
    item: Fault = FAULTS[name]
    for _ in range(2):
        answer = server.infer(item.message(), binary=binary)
        assert answer.status == STATUSES["INVALID_ARGUMENT"], answer.body
        if binary or name in OTHER_WORDS:
            words = OTHER_WORDS.get(name, item.words)
            assert not [word for word in words if word not in answer.error], answer.error
    assert outputs_of(server.infer(request("double"), binary=binary))["y"].tolist() == [[2] * 4]


@pytest.mark.parametrize("value", NOT_FINITE)
def test_non_finite_values_are_refused(server: HttpServer, value: float) -> None:
    tensor = numbers(np.array([[1, 2], [3, value]], "<f4"))
    answer = server.infer(request("same_FP32", {"x": tensor}), binary=True)
    assert (answer.status, "1 values" in answer.error, "[1, 1]" in answer.error) == (400, True, True)


def test_null_is_NaN_where_a_model_takes_it(server: HttpServer) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, None, 2, 3]}
    answer = server.ask("POST", "/v2/models/tolerant/infer", {"inputs": [tensor]})
    assert answer.json["outputs"][0]["data"] == [2.0, None, 4.0, 6.0]


@pytest.mark.parametrize("datatype", [*DTYPES, "BF16", "BYTES"])
def test_tensors_of_every_datatype_come_back_as_they_were(server: HttpServer, datatype: str) -> None:
    if datatype == "BYTES":
        tensor, expected = texts([b"", b"a", "é".encode(), b"0" * 300], [2, 2]), None
    elif datatype == "BF16":
        tensor, expected = bfloat16(np.array([[1, -2.5]])), None
    else:
        dtype: Any = DTYPES[datatype]
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        values = [0, 1] if dtype.kind == "b" else [limits.min, limits.max] if limits else [-2.5, 1e-3]
        expected = np.array([values], dtype=dtype)
        tensor = numbers(expected)
    message = request(f"same_{datatype}", {"x": tensor})
    found = outputs_of(server.infer(message, binary=True))["y"]
    if expected is not None:
        np.testing.assert_array_equal(found, expected)
    if datatype in ("FP16", "BF16"):
        refused = server.infer(message, binary=True, output_form=False)
        assert (refused.status, "only as a binary tensor" in refused.error) == (400, True)
        return
    np.testing.assert_array_equal(outputs_of(server.infer(message, binary=False))["y"], found)


def test_data_may_be_flat_or_as_deep_as_the_shape(server: HttpServer) -> None:
    for data in ([1, 2, 3, 4], [[1, 2, 3, 4]]):
        tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": data}
        answer = server.ask("POST", "/v2/models/double/infer", {"inputs": [tensor]})
        assert outputs_of(answer)["y"].tolist() == [[2, 4, 6, 8]]
    wrong = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [[1, 2], [3, 4]]}
    assert server.ask("POST", "/v2/models/double/infer", {"inputs": [wrong]}).status == 400


def test_each_output_comes_in_the_form_that_is_asked_for(server: HttpServer) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    outputs = [{"name": "z", "parameters": {"binary_data": True}}, {"name": "y", "parameters": {"binary_data": False}}]
    answer = server.ask("POST", "/v2/models/double/infer", {"id": "7", "inputs": [tensor], "outputs": outputs})
    assert [list(output) for output in answer.json["outputs"]] == [
        ["name", "datatype", "shape", "parameters"],
        ["name", "datatype", "shape", "data"],
    ]
    assert answer.json["id"] == "7"
    assert LENGTH.lower() in answer.headers
    assert {name: array.tolist() for name, array in outputs_of(answer).items()} == {
        "z": [[-1, -2, -3, -4]],
        "y": [[2, 4, 6, 8]],
    }
    plain = server.infer(request("double"), binary=False)
    assert LENGTH.lower() not in plain.headers
    assert plain.headers["content-type"] == "application/json"


def test_classes_are_answered_for_scores(server: HttpServer) -> None:
    message = request("double", {"x": np.array([[1, 4, 2, 3]], "<f4")})
    message.outputs.add(name="y").parameters["classification"].int64_param = 2
    assert outputs_of(server.infer(message, binary=False))["y"].tolist() == [[b"8.000000:1", b"6.000000:3"]]


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_bodies_may_be_compressed_both_ways(server: HttpServer, encoding: str, pack: Any) -> None:
    text, behind = body_of(request("same_FP32", {"x": np.ones((1, 4000), "<f4")}), binary=True, output_form=True)
    headers = {LENGTH: str(len(text)), "Content_Encoding": encoding, "Accept_Encoding": encoding}
    answer = server.ask("POST", "/v2/models/same_FP32/infer", pack(text + behind), **headers)
    assert answer.headers["content-encoding"] == encoding
    unpack = gzip.decompress if encoding == "gzip" else zlib.decompress
    assert outputs_of(answer._replace(body=unpack(answer.body)))["y"].sum() == 4000
    damaged = server.ask("POST", "/v2/models/same_FP32/infer", b"no " + encoding.encode(), Content_Encoding=encoding)
    assert (damaged.status, encoding in damaged.error) == (400, True)
    other = server.ask("POST", "/v2/models/same_FP32/infer", b"{}", Content_Encoding="zstd")
    assert (other.status, "zstd" in other.error) == (501, True)


@pytest.mark.parametrize(
    ("model", "version", "status"),
    [("none", "", 404), ("double", "9", 404), ("double", "x", 400), ("versions", "3", 503), ("broken", "", 503)],
)
def test_models_that_do_not_answer_have_the_status_of_gRPC(
    server: HttpServer, model: str, version: str, status: int
) -> None:
    answer = server.infer(request(model, {"x": rows(1)}, model_version=version), binary=False)
    assert answer.status == status, answer.body
    assert answer.error
    assert ("retry-after" in answer.headers) == (status == 503)


def test_versions_are_chosen_by_the_path(server: HttpServer) -> None:
    for version, y in (("1", 2), ("2", 3), ("", 3)):
        answer = server.infer(request("versions", {"x": rows(1)}, model_version=version), binary=False)
        assert (outputs_of(answer)["y"].tolist(), answer.json["model_version"]) == ([[y] * 4], version or "2")


@pytest.mark.parametrize(
    ("parameters", "word"),
    [({"timeout": -1}, "timeout"), ({"timeout": "5"}, "timeout"), ({"priority": 3}, "priority")],
)
def test_invalid_priorities_and_timeouts_are_refused(server: HttpServer, parameters: dict[str, Any], word: str) -> None:
    tensors = {"x": rows(1), "turns": np.zeros((1, 1), "<i8")}
    answer = server.infer(request("hasty", tensors, parameters=parameters), binary=False)
    assert (answer.status, f"'{word}'" in answer.error) == (400, True)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"\xff", b'{"inputs":3}', b'{"inputs":[{"name":"x"}]}', b'{"id":3}', b'{"inputs":[NaN]}'],
)
def test_bodies_that_are_no_request_are_refused(server: HttpServer, body: bytes) -> None:
    answer = server.ask("POST", "/v2/models/double/infer", body)
    assert (answer.status, bool(answer.error)) == (400, True)


@pytest.mark.parametrize("length", ["x", "-1", "999999", "1"])
def test_lengths_of_the_json_that_do_not_fit_are_refused(server: HttpServer, length: str) -> None:
    answer = server.ask("POST", "/v2/models/double/infer", b'{"inputs":[]}', **{LENGTH: length})
    assert (answer.status, bool(answer.error)) == (400, True)


def test_binary_data_that_do_not_fit_are_refused(server: HttpServer) -> None:
    text = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}]}'
    for behind in (bytes(15), bytes(17), b""):
        answer = server.ask("POST", "/v2/models/double/infer", text + behind, **{LENGTH: str(len(text))})
        assert (answer.status, "binary" in answer.error) == (400, True)


def test_an_unregistered_shared_memory_region_is_refused(server: HttpServer) -> None:
    offered = "system_shared_memory" in server.ask("GET", "/v2").json["extensions"]
    message = request("double", {"x": Tensor("FP32", (1, 4))})
    message.inputs[0].parameters["shared_memory_region"].string_param = "nobody's"
    message.inputs[0].parameters["shared_memory_byte_size"].int64_param = 16
    assert server.infer(message, binary=False).status == (400 if offered else 501)


def test_health_metadata_and_configuration_are_there(server: HttpServer) -> None:
    assert server.ask("GET", "/v2/health/live").status == 200
    assert server.ask("GET", "/v2/health/ready").status == 400, "the model broken is not ready"
    states = {path: server.ask("GET", f"/v2/models/{path}/ready").status for path in ("double", "versions/versions/2")}
    assert states == {"double": 200, "versions/versions/2": 200}
    for path in ("none", "broken", "versions/versions/3"):
        assert server.ask("GET", f"/v2/models/{path}/ready").status == 400
    metadata = server.ask("GET", "/v2/models/double").json
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    config = server.ask("GET", "/v2/models/double/config").json
    assert (config["name"], config["max_batch_size"], config["input"][0]["dims"]) == ("double", 8, [4])
    assert {"name", "version", "extensions"} <= server.ask("GET", "/v2").json.keys()
    assert "binary_tensor_data" in server.ask("GET", "/v2").json["extensions"]
    assert server.ask("GET", "/v2/models/none").status == 404
    assert server.ask("GET", "/v2/models/broken").status == 503


def test_requests_are_counted(server: HttpServer) -> None:
    def success() -> int:
        (stats,) = server.ask("GET", "/v2/models/pair/stats").json["model_stats"]
        return int(stats["inference_stats"]["success"]["count"])

    before = success()
    server.infer(request("pair", {"a": rows(1), "b": rows(2)}), binary=True)
    assert success() == before + 1
    assert len(server.ask("GET", "/v2/models/stats").json["model_stats"]) > 10


def test_the_repository_is_listed(server: HttpServer) -> None:
    every = server.ask("POST", "/v2/repository/index", {}).json
    ready = server.ask("POST", "/v2/repository/index", {"ready": True}).json
    assert {"name": "double", "version": "1", "state": "READY"}.items() <= next(
        item for item in every if item["name"] == "double"
    ).items()
    assert "broken" in {item["name"] for item in every} - {item["name"] for item in ready}


@pytest.mark.parametrize("path", ["/", "/v2/nothing", "/v2/models", "/v1/models/double:predict"])
def test_addresses_that_there_are_not_are_refused_in_json(server: HttpServer, path: str) -> None:
    answer = server.ask("GET", path)
    assert (answer.status, bool(answer.error)) == (404, True)


def test_other_methods_are_refused_with_those_that_there_are(server: HttpServer) -> None:
    answer = server.ask("GET", "/v2/models/double/infer")
    assert (answer.status, answer.headers["allow"], bool(answer.error)) == (405, "POST", True)
