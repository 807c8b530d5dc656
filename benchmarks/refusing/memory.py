"""Memory that callers leave behind in a server, and time that they take from each other."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import grpc

from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from refusing.messages import KINDS, MANY_STRINGS
from refusing.served import CHANNEL, INFER, Figure, SmallCaller, counted, send, served, small_request

KEPT = 200.0
"""MiB that a server may keep of what it has refused."""
LONGEST_WAIT = 1.0
"""Seconds that a small request may wait beside a large one; receiving 62 MiB is a good part of them."""
REGION_BYTES = 20 * 2**30
_WAITS = ("5 million parameters", "32 million empty strings", "62 million packed integers", "wrong size")
_LARGE = 5
_CALLERS = 8
_OBJECTS = Path("/dev/shm")


def send_kind(address: str, kind: str, count: int) -> str:
    """Send messages of one kind in turn; runs in a process of its own."""
    return counted(send(address, INFER, KINDS[kind](), count))


def refused_messages(count: int) -> Iterator[Figure]:
    """Measure what a server keeps of refused messages."""
    for kind in KINDS:
        with served() as server, _sender() as sender:
            before = server.resident()
            statuses = sender.submit(send_kind, server.address, kind, count).result()
            grown = server.resident() - before
        yield Figure(what=f"{count} refused: {kind}", value=grown, unit="MiB kept", bound=KEPT, note=statuses)


def waits_beside(_count: int) -> Iterator[Figure]:
    """Measure the longest wait of a small caller beside large messages."""
    for kind in _WAITS:
        with served() as server, _sender() as sender, SmallCaller(server.address) as caller:
            statuses = sender.submit(send_kind, server.address, kind, _LARGE).result()
        yield Figure(
            what=f"beside {_LARGE} messages: {kind}",
            value=caller.longest,
            unit="s longest wait",
            bound=LONGEST_WAIT,
            note=f"{statuses}; small calls: {counted(caller.statuses)}",
        )


def send_strings(address: str) -> str:
    """Have callers send as many strings as one tensor may have, in the wrong shape; runs in a process of its own."""
    with ThreadPoolExecutor(_CALLERS) as callers:
        sent = [callers.submit(send, address, INFER, MANY_STRINGS, _LARGE) for _ in range(_CALLERS)]
    return counted(sum((one.result() for one in sent), Counter[str]()))


def waits_beside_many(_count: int) -> Iterator[Figure]:
    """Measure the longest wait of a small caller beside callers whose messages take long to count."""
    with served() as server, _sender() as sender, SmallCaller(server.address) as caller:
        statuses = sender.submit(send_strings, server.address).result()
    yield Figure(
        what=f"beside {_CALLERS} callers of a million strings",
        value=caller.longest,
        unit="s longest wait",
        bound=LONGEST_WAIT,
        note=f"{statuses}; small calls: {counted(caller.statuses)}",
    )


def shared_memory(_count: int) -> Iterator[Figure]:
    """Ask for a region of 20 GiB, a file without blocks, as a tensor of 32 bytes."""
    file = _OBJECTS / f"mnserve-refusals-{os.getpid()}"
    file.touch()
    try:
        os.truncate(file, REGION_BYTES)
        with served() as server, SmallCaller(server.address) as caller:
            before = server.resident()
            note = _ask_for_region(server.address, file.name)
            grown = server.resident() - before
    finally:
        file.unlink()
    yield Figure(what="region of 20 GiB as [1, 8]", value=grown, unit="MiB kept", bound=KEPT, note=note)
    yield Figure(
        what="beside the region of 20 GiB", value=caller.longest, unit="s longest wait", bound=LONGEST_WAIT
    )  # fmt: skip


MEASUREMENTS: Mapping[str, Callable[[int], Iterator[Figure]]] = {
    "refused": refused_messages,
    "waits": waits_beside,
    "many-strings": waits_beside_many,
    "shared-memory": shared_memory,
}


def _sender() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _ask_for_region(address: str, key: str) -> str:
    """Send the tensor with the size of the region, then with its own."""
    outcomes = []
    with grpc.insecure_channel(address, options=CHANNEL) as channel:
        stub = GRPCInferenceServiceStub(channel)
        stub.SystemSharedMemoryRegister(
            pb.SystemSharedMemoryRegisterRequest(name="huge", key=key, byte_size=REGION_BYTES)
        )
        for size in (REGION_BYTES, 32):
            request = small_request()
            del request.raw_input_contents[:]
            request.inputs[0].parameters["shared_memory_region"].string_param = "huge"
            request.inputs[0].parameters["shared_memory_byte_size"].int64_param = size
            try:
                stub.ModelInfer(request, timeout=120)
                outcomes.append("OK")
            except grpc.RpcError as error:
                outcomes.append(error.code().name)
    return f"20 GiB: {outcomes[0]}, 32 bytes: {outcomes[1]}"
