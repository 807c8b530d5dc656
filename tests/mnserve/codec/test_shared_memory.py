"""Regions of shared memory: what lies in them is read and written, and nothing else ever is."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnserve.codec.datatypes import DATATYPES
from mnserve.codec.decoding import decode_request
from mnserve.codec.encoding import encode_response
from mnserve.codec.shared_memory import MAX_REGIONS, Region, Regions, Slice
from mnserve.codec.signature import RequestSignature, TensorRule
from mnserve.errors import InvalidRequestError, RegionExistsError, UnknownRegionError
from mnserve.protocol import service_pb2 as pb
from mnserve.settings import ServeSettings

RULES = tuple(TensorRule(name=name, datatype=DATATYPES["FP32"], dims=(2,)) for name in "ab")
SIGNATURE = RequestSignature(model="m", max_batch_size=4, inputs=RULES, outputs=RULES)


@pytest.fixture
def regions(tmp_path: Path) -> Regions:
    """One region ``r``: 40 bytes behind the first 8 of an object of 64."""
    (tmp_path / "object").write_bytes(bytes(range(64)))
    regions = Regions(tmp_path)
    regions.register(Region(name="r", key="/object", offset=8, byte_size=40))
    return regions


def part(offset: int = 0, byte_size: int = 8, region: str = "r") -> Slice:
    return Slice(region=region, offset=offset, byte_size=byte_size)


def test_a_region_is_read_and_written(regions: Regions, tmp_path: Path) -> None:
    assert regions.read(part(2, 4), "x") == bytes([10, 11, 12, 13])
    regions.write(part(32, 8), b"abcdefgh", "x")
    regions.write(part(0, 8), b"short", "x")
    content = (tmp_path / "object").read_bytes()
    assert content[40:48] == b"abcdefgh"
    assert content[8:14] == b"short\x0d"
    assert content[48:] == bytes(range(48, 64))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (part(33, 8), "takes 8 bytes from 33 of region 'r', which has 40"),
        (part(0, 41), "takes 41 bytes"),
        (part(-1, 4), "from -1"),
        (part(region="q"), "region 'q', which nobody registered"),
    ],
)
def test_nothing_outside_a_region_is_touched(regions: Regions, where: Slice, words: str, tmp_path: Path) -> None:
    for call in (regions.check, regions.read, lambda where, what: regions.write(where, b"1", what)):
        with pytest.raises(InvalidRequestError, match=words):
            call(where, "x")
    with pytest.raises(InvalidRequestError, match="has 9 bytes, more than the 8"):
        regions.write(part(), b"123456789", "x")
    assert (tmp_path / "object").read_bytes() == bytes(range(64))


def test_an_object_that_becomes_shorter_is_refused(regions: Regions, tmp_path: Path) -> None:
    os.truncate(tmp_path / "object", 12)
    assert regions.read(part(0, 4), "x") == bytes([8, 9, 10, 11])
    for call in (lambda: regions.read(part(), "x"), lambda: regions.write(part(), b"12345678", "x")):
        with pytest.raises(InvalidRequestError, match="has become shorter"):
            call()
    assert (tmp_path / "object").stat().st_size == 12


@pytest.mark.parametrize(
    "key", ["", "/", ".", "..", "/..", "a/b", "../object", "/a/../object", "o\0", "a" * 300, "o b"]
)
def test_keys_never_become_paths(regions: Regions, key: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"has to be the name of a shared memory object"):
        regions.register(Region(name="new", key=key, offset=0, byte_size=1))


def test_regions_that_cannot_be_are_refused(regions: Regions, tmp_path: Path) -> None:
    def refused(words: str, kind: type[Exception] = InvalidRequestError, **fields: Any) -> None:
        values = {"name": "new", "key": "object", "offset": 0, "byte_size": 1} | fields
        with pytest.raises(kind, match=words):
            regions.register(Region(**values))

    refused("there is a shared memory region 'r' already", RegionExistsError, name="r")
    refused("cannot be opened: No such file", key="none")
    refused("has 0 bytes", byte_size=0)
    refused("ends at byte 65, but the shared memory object 'object' has 64", offset=60, byte_size=5)
    refused("characters, not 0", name="")
    refused("characters, not 300", name="n" * 300)
    (tmp_path / "link").symlink_to(tmp_path / "object")
    refused("cannot be opened", key="link")
    (tmp_path / "folder").mkdir()
    refused("cannot be opened", key="folder")
    assert list(regions.status()) == ["r"]
    gc.collect()  # what other tests left open
    handles = len(os.listdir("/proc/self/fd"))
    for number in range(MAX_REGIONS - 1):
        regions.register(Region(name=str(number), key="object", offset=0, byte_size=1))
    refused(f"there are {MAX_REGIONS} shared memory regions")
    regions.unregister()
    assert len(os.listdir("/proc/self/fd")) == handles - 1


def test_unregistered_regions_leave_the_status(regions: Regions) -> None:
    assert regions.status("r") == regions.status() == {"r": Region(name="r", key="/object", offset=8, byte_size=40)}
    with pytest.raises(UnknownRegionError, match="no shared memory region 'q'"):
        regions.status("q")
    regions.unregister("q")
    regions.unregister("r")
    assert regions.status() == {}
    with pytest.raises(InvalidRequestError, match="nobody registered"):
        regions.read(part(), "x")


def request(**parameters: Any) -> pb.ModelInferRequest:
    """Input ``a`` in shared memory, ``b`` in the message."""
    message = pb.ModelInferRequest(model_name="m")
    for name in "ab":
        message.inputs.add(name=name, datatype="FP32", shape=[1, 2])
    for name, value in ({"region": "r", "byte_size": 8} | parameters).items():
        if value is not None:
            field = "string_param" if isinstance(value, str) else "int64_param"
            setattr(message.inputs[0].parameters[f"shared_memory_{name}"], field, value)
    message.raw_input_contents.append(np.array([3, 4], "<f4").tobytes())
    return message


def test_inputs_and_outputs_travel_in_shared_memory(regions: Regions, tmp_path: Path) -> None:
    regions.write(part(16, 8), np.array([1, 2], "<f4").tobytes(), "x")
    message = request(offset=16)
    work = decode_request(message, SIGNATURE, regions)
    assert work.feeds["a"].tolist() == [[1, 2]]
    assert work.feeds["b"].tolist() == [[3, 4]]
    arrays = [np.array([[5, 6]], np.float32), np.array([[7, 8]], np.float32)]
    answer = encode_response(
        signature=SIGNATURE, version=1, request_id="", names="ab", arrays=arrays,
        targets={"b": part(24, 12)}, regions=regions,
    )  # fmt: skip
    assert list(answer.raw_output_contents) == [arrays[0].tobytes(), b""]
    parameters = answer.outputs[1].parameters
    assert parameters["shared_memory_region"].string_param == "r"
    assert parameters["shared_memory_offset"].int64_param == 24
    assert parameters["shared_memory_byte_size"].int64_param == 8
    assert regions.read(part(24, 8), "x") == arrays[1].tobytes()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"region": None}, "no shared_memory_region"),
        ({"region": 7}, "no shared_memory_region"),
        ({"byte_size": None}, "'shared_memory_byte_size' comes as nothing"),
        ({"byte_size": "8"}, "'shared_memory_byte_size' comes as string_param"),
        ({"byte_size": -8}, "'shared_memory_byte_size' is -8"),
        ({"byte_size": 12}, "has 12 bytes of raw contents, expected 8"),
        ({"offset": 36}, "takes 8 bytes from 36"),
        ({"region": "q"}, "which nobody registered"),
    ],
)
def test_malformed_parameters_of_shared_memory_are_refused(
    regions: Regions, parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        decode_request(request(**parameters), SIGNATURE, regions)


def test_a_tensor_sent_twice_is_refused(regions: Regions) -> None:
    twice = request()
    twice.raw_input_contents.append(b"12345678")
    with pytest.raises(InvalidRequestError, match="2 raw_input_contents for 1 inputs that are not in shared memory"):
        decode_request(twice, SIGNATURE, regions)
    both = request()
    both.inputs[0].contents.fp32_contents.extend([1, 2])
    with pytest.raises(InvalidRequestError, match="has contents, and is in shared memory"):
        decode_request(both, SIGNATURE, regions)


TEXTS = RequestSignature(
    model="m", max_batch_size=0, inputs=(TensorRule(name="t", datatype=DATATYPES["BYTES"], dims=(-1,)),), outputs=RULES
)


@pytest.fixture
def read_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of all reads of files."""
    sizes: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, size, start: sizes.append(size) or pread(handle, size, start))
    return sizes


def huge(regions: Regions, tmp_path: Path, content: bytes = b"") -> None:
    """Region ``huge`` of 20 GiB, a file without blocks."""
    (tmp_path / "huge").write_bytes(content)
    os.truncate(tmp_path / "huge", 20 * 2**30)
    regions.register(Region(name="huge", key="huge", offset=0, byte_size=20 * 2**30))


def test_a_size_is_compared_before_anything_is_read(regions: Regions, tmp_path: Path, read_sizes: list[int]) -> None:
    huge(regions, tmp_path)
    with pytest.raises(InvalidRequestError, match=f"has {20 * 2**30} bytes of raw contents, expected 8"):
        decode_request(request(region="huge", byte_size=20 * 2**30), SIGNATURE, regions)
    decode_request(request(region="huge"), SIGNATURE, regions)
    assert read_sizes == [8]


def texts(byte_size: int, count: int) -> pb.ModelInferRequest:
    message = pb.ModelInferRequest(model_name="m")
    tensor = message.inputs.add(name="t", datatype="BYTES", shape=[count])
    tensor.parameters["shared_memory_region"].string_param = "huge"
    tensor.parameters["shared_memory_byte_size"].int64_param = byte_size
    return message


def test_lengths_of_strings_are_added_up_before_they_are_read(
    regions: Regions, tmp_path: Path, read_sizes: list[int]
) -> None:
    items = [b"", b"abc", b"d" * 200_000, b"e"]
    content = b"".join(len(item).to_bytes(4, "little") + item for item in items)
    huge(regions, tmp_path, content)
    assert decode_request(texts(len(content), 4), TEXTS, regions).feeds["t"].tolist() == items
    read_sizes.clear()
    for byte_size, count in ((20 * 2**30, 4), (len(content) - 1, 4), (len(content), 3), (2, 1), (20 * 2**30, 2**20)):
        with pytest.raises(InvalidRequestError, match=f"which the lengths of its {count} elements of BYTES do not"):
            decode_request(texts(byte_size, count), TEXTS, regions)
    assert max(read_sizes) <= 2**16
    (tmp_path / "huge").write_bytes(b"\xfb\xff\xff\xff")
    os.truncate(tmp_path / "huge", 20 * 2**30)
    with pytest.raises(InvalidRequestError, match="'t' has 4294967295 bytes in shared memory, expected at most"):
        decode_request(texts(2**32 - 1, 1), TEXTS, regions)


def test_reads_and_writes_go_on_where_one_call_ends_early(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux moves 2 GiB at most in one call."""
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda handle, size, start: pread(handle, min(size, 3), start))
    monkeypatch.setattr(os, "pwrite", lambda handle, data, start: pwrite(handle, data[:3], start))
    regions.write(part(0, 8), b"abcdefgh", "x")
    assert regions.read(part(0, 8), "x") == b"abcdefgh"


def test_unregistering_waits_for_no_read(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread

    def meanwhile(handle: int, size: int, start: int) -> bytes:
        regions.unregister("r")
        return pread(handle, size, start)

    monkeypatch.setattr(os, "pread", meanwhile)
    handles = len(os.listdir("/proc/self/fd"))
    assert regions.read(part(0, 4), "x") == bytes([8, 9, 10, 11])
    assert len(os.listdir("/proc/self/fd")) == handles - 1


@pytest.mark.parametrize(
    ("host", "setting", "offered"),
    [
        ("127.0.0.1", "auto", True), ("::1", "auto", True), ("localhost", "auto", True), ("0.0.0.0", "auto", False),
        ("10.0.0.1", "on", True), ("127.0.0.1", "off", False),
    ],
)  # fmt: skip
def test_shared_memory_is_offered_where_host_and_setting_allow(host: str, setting: Any, offered: bool) -> None:
    assert ServeSettings(repository="r", host=host, shared_memory=setting).offers_shared_memory is offered
