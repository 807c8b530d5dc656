"""Calls, watches and streams of callers that take more than their part."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from soaking.memory import resident_bytes
from soaking.models import MAX_ROWS, WIDTH

from mnserve.protocol import service_pb2 as pb
from mnserve.protocol.service_pb2_grpc import GRPCInferenceServiceStub
from refusing.memory import KEPT
from refusing.messages import tensor
from refusing.served import CHANNEL, MEBIBYTE, STREAM, Figure, Served, counted, served, small_request

_GOOD = ("OK", "UNAVAILABLE")
_WATCHES = 30
_PLACES = 16
_NAME = 60 * MEBIBYTE
_AT_ONCE = (3000, 6000)
_PIPELINED = 400
_QUEUE_MIB = 32
_READING_NOTHING = 5.0


def watches_with_long_names(_count: int) -> Iterator[Figure]:
    """Open health watches whose service has a name of 60 MiB."""
    with served() as server:
        before = server.resident()
        statuses, peak = asyncio.run(_watch_long_names(server))
        grown = server.resident() - before
    what = f"{_WATCHES} watches of a name of 60 MiB"
    yield Figure(what=what, value=grown, unit="MiB kept", bound=KEPT, note=counted(statuses))
    yield Figure(what=f"{what}, at most", value=peak - before, unit="MiB", bound=1024)


def watches_in_every_place(_count: int) -> Iterator[Figure]:
    """Open as many watches as --max-concurrent-requests, and make other calls."""
    with served("--max-concurrent-requests", str(_PLACES)) as server:
        statuses = asyncio.run(_call_beside_watches(server.address))
    failed = statuses.total() - statuses["OK"]
    what = f"other calls beside {_PLACES} watches, of {_PLACES} places"
    yield Figure(what=what, value=failed, unit="refused", bound=0, note=counted(statuses))


def calls_at_once(_count: int) -> Iterator[Figure]:
    """Make thousands of calls at once on one channel."""
    for number in _AT_ONCE:
        with served() as server:
            statuses = asyncio.run(_call_at_once(server.address, number))
        bad = sum(count for status, count in statuses.items() if status not in _GOOD)
        yield Figure(
            what=f"{number} calls at once",
            value=bad,
            unit="neither OK nor UNAVAILABLE",
            bound=0,
            note=counted(statuses),
        )


def termination_under_load(_count: int) -> Iterator[Figure]:
    """Send SIGTERM to a server that is called all the time."""
    with served() as server:
        statuses = asyncio.run(_call_until_it_ends(server))
    bad = sum(count for status, count in statuses.items() if status not in _GOOD)
    yield Figure(
        what="calls around a SIGTERM", value=bad, unit="neither OK nor UNAVAILABLE", bound=0, note=counted(statuses)
    )


def stream_that_is_not_read(_count: int) -> Iterator[Figure]:
    """Send requests of 4 MiB on a stream, and read no answer."""
    with served("--max-queue-bytes", str(_QUEUE_MIB * MEBIBYTE)) as server:
        before = server.resident()
        sent, peak = asyncio.run(_read_nothing(server))
    yield Figure(
        what="stream whose client reads nothing",
        value=peak - before,
        unit="MiB at most",
        bound=KEPT,
        note=f"{sent} requests of 4 MiB sent, --max-queue-bytes {_QUEUE_MIB} MiB",
    )


def streams_that_pipeline(_count: int) -> Iterator[Figure]:
    """Send full batches on two streams without a pause."""
    with served("--max-queue-rows", str(16 * MAX_ROWS)) as server:
        outcomes = asyncio.run(_pipeline(server.address))
    refused = outcomes.total() - outcomes["answered"]
    what = f"two streams of {_PIPELINED} full batches"
    yield Figure(what=what, value=refused, unit="refused", bound=0, note=counted(outcomes))


MEASUREMENTS: Mapping[str, Callable[[int], Iterator[Figure]]] = {
    "long-names": watches_with_long_names,
    "watches": watches_in_every_place,
    "at-once": calls_at_once,
    "sigterm": termination_under_load,
    "unread-stream": stream_that_is_not_read,
    "pipelines": streams_that_pipeline,
}


async def _status(call: Awaitable[Any]) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    except asyncio.CancelledError:
        return "CANCELLED"
    return "OK"


def _channel(address: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=CHANNEL)


async def _watch_long_names(server: Served) -> tuple[Counter[str], float]:
    request = health_pb2.HealthCheckRequest(service="n" * _NAME).SerializeToString()
    peak, statuses = 0.0, Counter[str]()
    async with _channel(server.address) as channel:
        watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls = [watch(request) for _ in range(_WATCHES)]
        first = [asyncio.ensure_future(_status(call.read())) for call in calls]
        end = time.monotonic() + 30
        while time.monotonic() < end and not all(one.done() for one in first):
            await asyncio.sleep(0.05)
            peak = max(peak, resident_bytes(server.pids) / MEBIBYTE)
        statuses.update(one.result() if one.done() else "no answer" for one in first)
        peak = max(peak, await asyncio.to_thread(server.resident))  # with the watches still open
        for call in calls:
            call.cancel()
    return statuses, peak


async def _call_beside_watches(address: str) -> Counter[str]:
    statuses: Counter[str] = Counter()
    async with _channel(address) as watching, _channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(watching)
        watches = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(_PLACES)]
        for watch in watches:
            await watch.read()
        check: Any = health_pb2_grpc.HealthStub(channel)
        stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        for _ in range(10):
            statuses[await _status(check.Check(health_pb2.HealthCheckRequest()))] += 1
            statuses[await _status(stub.ServerReady(pb.ServerReadyRequest()))] += 1
            statuses[await _status(stub.ModelInfer(small_request()))] += 1
        for watch in watches:
            watch.cancel()
    return statuses


async def _call_at_once(address: str, number: int) -> Counter[str]:
    async with _channel(address) as channel:
        stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
        request = small_request()
        return Counter(await asyncio.gather(*[_status(stub.ModelInfer(request, timeout=120)) for _ in range(number)]))


async def _call_until_it_ends(server: Served) -> Counter[str]:
    statuses: Counter[str] = Counter()
    ended = asyncio.Event()

    async def keep_calling() -> None:
        async with _channel(server.address) as channel:
            stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
            while not ended.is_set():
                status = await _status(stub.ModelInfer(small_request(), timeout=60))
                statuses[status] += 1
                await asyncio.sleep(0 if status == "OK" else 0.02)

    callers = [asyncio.ensure_future(keep_calling()) for _ in range(_PLACES)]
    await asyncio.sleep(1)
    os.kill(server.pids[0], signal.SIGTERM)
    await asyncio.sleep(4)
    ended.set()
    await asyncio.gather(*callers)
    return statuses


async def _read_nothing(server: Served) -> tuple[int, float]:
    message = tensor("wide", bytes(4 * MEBIBYTE), (1, MEBIBYTE)).SerializeToString()
    sent, peak = 0, 0.0

    async def write(call: Any) -> None:
        nonlocal sent
        while True:
            await call.write(message)
            sent += 1

    async with _channel(server.address) as channel:
        call: Any = channel.stream_stream(STREAM)()
        writing = asyncio.ensure_future(write(call))
        end = time.monotonic() + _READING_NOTHING
        while time.monotonic() < end:
            await asyncio.sleep(0.05)
            peak = max(peak, resident_bytes(server.pids) / MEBIBYTE)
        writing.cancel()
        call.cancel()
    return sent, peak


async def _pipeline(address: str) -> Counter[str]:
    message = tensor("twice", bytes(4 * WIDTH * MAX_ROWS), (MAX_ROWS, WIDTH))
    outcomes: Counter[str] = Counter()

    async def requests() -> AsyncIterator[pb.ModelInferRequest]:
        for _ in range(_PIPELINED):
            yield message

    async def stream() -> None:
        async with _channel(address) as channel:
            stub: Any = GRPCInferenceServiceStub(channel)  # type: ignore[arg-type]
            async for answer in stub.ModelStreamInfer(requests()):
                outcomes["refused" if answer.error_message else "answered"] += 1

    await asyncio.gather(stream(), stream())
    return outcomes
