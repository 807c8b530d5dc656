"""Tensors in system shared memory: read from a region, written into one, and every way to miss it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import grpc
import numpy as np
import pytest
from open_inference import outputs_of, refused, rows
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

NBYTES = 256
ROW = 16
"""Bytes of a row of four float32."""


@pytest.fixture(scope="module")
def its_stub(start_own: Callable[..., Any]) -> Iterator[Any]:
    """The calls of a server on this machine that offers shared memory."""
    with grpc.insecure_channel(start_own("--shared-memory", "on").address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture
def memory(its_stub: Any) -> Iterator[SharedMemory]:
    """A region ``region`` of 256 bytes that is registered."""
    made = SharedMemory(f"mn-{uuid.uuid4().hex}", create=True, size=NBYTES)
    register(its_stub, made)
    yield made
    its_stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest())
    made.close()
    made.unlink()


def content(memory: SharedMemory) -> memoryview:
    assert memory.buf is not None
    return memory.buf


def register(stub: Any, memory: SharedMemory, name: str = "region", **fields: int) -> None:
    key = f"/{memory.name}"
    stub.SystemSharedMemoryRegister(
        pb.SystemSharedMemoryRegisterRequest(name=name, key=key, **{"offset": 0, "byte_size": NBYTES, **fields})
    )


def placed(tensor: Any, region: str = "region", offset: int = 0, nbytes: int = ROW) -> None:
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_offset"].int64_param = offset
    tensor.parameters["shared_memory_byte_size"].int64_param = nbytes


def reading(count: int = 1, **place: Any) -> Any:
    """A request for ``double`` whose input lies in a region."""
    message = pb.ModelInferRequest(model_name="double")
    placed(message.inputs.add(name="x", datatype="FP32", shape=[count, 4]), **place)
    return message


def writing(**place: Any) -> Any:
    """A request for ``double`` whose output y goes into a region; z comes with the answer."""
    message = pb.ModelInferRequest(model_name="double")
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    message.raw_input_contents.append(rows(3).tobytes())
    placed(message.outputs.add(name="y"), **place)
    message.outputs.add(name="z")
    return message


def test_an_input_is_read_where_it_lies(its_stub: Any, memory: SharedMemory) -> None:
    for value in (1.0, 7.0):
        content(memory)[64 : 64 + 2 * ROW] = rows(value, value + 1).tobytes()
        y = outputs_of(its_stub.ModelInfer(reading(2, offset=64, nbytes=2 * ROW)))["y"]
        assert y[:, 0].tolist() == [2 * value, 2 * value + 2]


def test_an_output_is_written_where_it_should_lie_and_nowhere_else(its_stub: Any, memory: SharedMemory) -> None:
    content(memory)[:] = b"\xaa" * NBYTES
    answer = its_stub.ModelInfer(writing(offset=128))
    assert [entry.name for entry in answer.outputs] == ["y", "z"]
    assert answer.outputs[0].parameters["shared_memory_region"].string_param == "region"
    assert not answer.raw_output_contents[0]
    assert np.frombuffer(answer.raw_output_contents[1], "<f4").tolist() == [-3] * 4
    found = bytes(content(memory))
    assert np.frombuffer(found[128 : 128 + ROW], "<f4").tolist() == [6] * 4
    assert found[:128] + found[128 + ROW :] == b"\xaa" * (NBYTES - ROW)


@pytest.mark.parametrize("build", [reading, writing])
@pytest.mark.parametrize(
    "place",
    [
        {"region": "nobody"},
        {"offset": NBYTES},
        {"offset": NBYTES - ROW + 1},
        {"offset": 2**62},
        {"offset": -1},
        {"nbytes": ROW - 4},
        {"nbytes": NBYTES + 1},
        {"nbytes": -1},
    ],
    ids=str,
)
def test_tensors_outside_every_region_are_refused_and_nothing_is_written(
    its_stub: Any, memory: SharedMemory, build: Callable[..., Any], place: dict[str, Any]
) -> None:
    content(memory)[:] = b"\xaa" * NBYTES
    with refused("INVALID_ARGUMENT", "'double'", "'x'" if build is reading else "'y'"):
        its_stub.ModelInfer(build(**place))
    assert bytes(content(memory)) == b"\xaa" * NBYTES
    assert its_stub.ModelInfer(reading()).raw_output_contents


def test_regions_are_known_until_they_are_taken_back(its_stub: Any, memory: SharedMemory) -> None:
    (found,) = its_stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest()).regions.values()
    assert (found.name, found.key, found.offset, found.byte_size) == ("region", f"/{memory.name}", 0, NBYTES)
    with refused("ALREADY_EXISTS", "'region'"):
        register(its_stub, memory)
    with refused("INVALID_ARGUMENT"):
        register(its_stub, memory, "larger", byte_size=2**40)
    its_stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest(name="region"))
    with refused("NOT_FOUND", "'region'"):
        its_stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest(name="region"))
    with refused("INVALID_ARGUMENT", "'region'"):
        its_stub.ModelInfer(reading())
