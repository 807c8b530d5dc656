"""Two processes: thousands of requests of all kinds, none lost or swapped; and an engine process that is killed."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from mnserve.batching.request_limits import RequestLimits
from mnserve.channel.memory import SharedMemory
from mnserve.codec.decoding import InferenceWork
from mnserve.engine_links.front_end_link import LinkMemories
from mnserve.errors import DeadlineExceededError, EngineLostError, QueueFullError
from mnserve.remote import engine_link
from mnserve.remote.engine_link import EngineLink

ENGINE_PROCESS = """
import asyncio, socket, sys, time
import numpy as np
from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.channel.memory import SharedMemory
from mnserve.engine_links.front_end_link import FrontEndLink, LinkMemories
from mnserve.engines.base import TensorSpec
from mnserve.engines.fake import FakeEngine
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance

def served(datatype, function):
    specs = {"inputs": [TensorSpec(name="x", datatype=datatype, shape=(-1, -1))],
             "outputs": [TensorSpec(name="y", datatype=datatype, shape=(-1, -1))]}
    instance = Instance(engine=FakeEngine(function=function, **specs), thread=EngineThread("m"))
    batcher = Batcher([instance], name="m", options=BatcherOptions(max_batch_size=8, max_queue_rows=64))
    batcher.start()
    return batcher

def hang(feeds):
    time.sleep(60)

async def main():
    sock, requests, answers = map(int, sys.argv[1:])
    backwards = np.vectorize(lambda text: text[::-1], otypes=[object])
    endpoints = {
        1: served("FP32", lambda feeds: {"y": feeds["x"] * 2}),
        2: served("BYTES", lambda feeds: {"y": backwards(feeds["x"])}),
        3: served("FP32", hang),
    }
    closed = asyncio.Event()
    memories = LinkMemories(SharedMemory.from_fd(requests), SharedMemory.from_fd(answers))
    FrontEndLink(socket.socket(fileno=sock), memories, endpoints, lambda _: closed.set())
    await closed.wait()

asyncio.run(main())
"""
MEMORY_BYTES = 2**23


@pytest.fixture
def engine_process() -> Iterator[Callable[[], tuple[EngineLink, subprocess.Popen[bytes]]]]:
    """Starts an engine process, and links the running loop to it."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[EngineLink, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        memories = LinkMemories(SharedMemory.create(MEMORY_BYTES), SharedMemory.create(MEMORY_BYTES))
        fds = [theirs.fileno(), memories.requests.fd, memories.answers.fd]
        process = subprocess.Popen([sys.executable, "-c", ENGINE_PROCESS, *map(str, fds)], pass_fds=fds)
        started.append(process)
        theirs.close()
        return EngineLink(ours, memories), process

    yield start
    for process in started:
        process.kill()
        process.wait()


def numbers(choice: random.Random, value: int) -> InferenceWork:
    """A request of 1 to 3 rows and up to 40 or 40,000 bytes, with two elements of its own."""
    width = choice.choice([2, 2, 10, 700, 3_300])
    rows = np.zeros((choice.randint(1, 3), width), np.float32)
    rows[:, 0], rows[:, -1] = value, -value
    return InferenceWork(feeds={"x": rows}, rows=len(rows), outputs=("y",))


async def test_ten_thousand_requests_of_all_kinds_and_a_killed_engine_process(
    engine_process: Callable[[], tuple[EngineLink, subprocess.Popen[bytes]]],
) -> None:
    link, process = engine_process()
    loop = asyncio.get_running_loop()
    choice = random.Random(5)
    outcomes = {"answered": 0, "refused": 0, "late": 0, "cancelled": 0}
    numbers_left = iter(range(1, 10_001))

    async def send(value: int) -> None:
        kind = choice.random()
        on_admitted = (lambda _: None) if kind < 0.3 else None
        if kind > 0.9:
            text = str(value).encode() * choice.choice([1, 30, 3_000])
            asked, endpoint = InferenceWork(feeds={"x": np.array([[text]], object)}, rows=1, outputs=("y",)), 2
        else:
            text, asked, endpoint = b"", numbers(choice, value), 1
        late = choice.random() < 0.05
        limits = RequestLimits(deadline=loop.time() + choice.uniform(0, 0.002) if late else None)
        asking = asyncio.ensure_future(link.infer(endpoint, asked, limits, on_admitted))
        if choice.random() < 0.1:
            await asyncio.sleep(choice.choice([0, 0, 0.001]))
            asking.cancel()
        try:
            (y,) = (await asking).arrays
        except asyncio.CancelledError:
            outcomes["cancelled"] += 1
        except DeadlineExceededError:
            outcomes["late"] += 1
        except QueueFullError:
            outcomes["refused"] += 1
        else:
            outcomes["answered"] += 1
            if text:
                assert y.tolist() == [[text[::-1]]]
            else:
                assert y.shape == asked.feeds["x"].shape
                assert (y[:, 0] == 2 * value).all()
                assert (y[:, -1] == -2 * value).all()

    async def caller() -> None:
        for value in numbers_left:
            await send(value)

    await asyncio.gather(*(caller() for _ in range(48)))
    assert sum(outcomes.values()) == 10_000
    assert outcomes["answered"] > 8_000
    assert min(outcomes["late"], outcomes["cancelled"]) > 50
    async with asyncio.timeout(5):
        while link.outstanding or link._arena.used:
            await asyncio.sleep(0.001)

    waiting = [asyncio.ensure_future(link.infer(3, numbers(choice, i), RequestLimits())) for i in range(20)]
    await asyncio.sleep(0.02)
    process.kill()
    async with asyncio.timeout(2):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in ended} == {EngineLostError}
    assert link.closed


async def test_callers_that_leave_a_stuck_engine_process_pile_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_link, "MAX_ON_THEIR_WAY", 3)
    ours, stuck = socket.socketpair()
    link = EngineLink(ours, LinkMemories(SharedMemory.create(MEMORY_BYTES), SharedMemory.create(MEMORY_BYTES)))
    work = InferenceWork(feeds={"x": np.zeros((1, 4), np.float32)}, rows=1, outputs=("y",))
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(link.infer(1, work, RequestLimits()), 0.001)
    with pytest.raises(QueueFullError, match="3 requests are on their way"):
        await link.infer(1, work, RequestLimits())
    link.close()
    stuck.close()
