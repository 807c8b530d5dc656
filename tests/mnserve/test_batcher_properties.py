"""Whatever callers do, every one of them gets its own rows or the error it deserves, and nothing is lost."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnserve.batcher import Answer, Batcher
from mnserve.batching import BatcherOptions
from mnserve.engines.base import TensorSpec
from mnserve.engines.fake import FakeEngine
from mnserve.errors import DeadlineExceededError, EngineRunError, QueueFullError
from mnserve.execution import Work
from mnserve.instances import Instance, engine_thread

Array = np.ndarray[Any, Any]
POISON = -1.0
OUTPUTS = (
    TensorSpec(name="y", datatype="FP32", shape=(-1, -1)),
    TensorSpec(name="z", datatype="FP32", shape=(-1,)),
)


@dataclass(frozen=True)
class Caller:
    """One request and how its caller behaves."""

    rows: int
    width: int
    fate: Literal["waits", "cancels", "deadline", "poison"]
    pause: int
    """Turns of the event loop before the request is sent."""
    patience: int
    """Turns before it is cancelled."""


CALLERS = st.builds(
    Caller,
    rows=st.integers(1, 4),
    width=st.integers(1, 3),
    fate=st.sampled_from(["waits", "waits", "waits", "cancels", "deadline", "poison"]),
    pause=st.integers(0, 6),
    patience=st.integers(0, 8),
)


def engine(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
    x = feeds["x"]
    assert 1 <= len(x) <= 4
    if (x == POISON).any():
        raise EngineRunError("poison")
    return {"y": x * 2, "z": x.sum(axis=1)}


def request(number: int, caller: Caller) -> Work:
    """Every element tells whose it is and where it belongs."""
    x = 1000.0 * number + np.arange(caller.rows * caller.width, dtype=np.float32).reshape(caller.rows, caller.width)
    if caller.fate == "poison":
        x[-1, -1] = POISON
    return Work(feeds={"x": x}, rows=caller.rows, outputs=("z", "y") if number % 2 else ("y",))


def check(item: Work, answer: Answer) -> None:
    expected = {"y": item.feeds["x"] * 2, "z": item.feeds["x"].sum(axis=1)}
    assert len(answer.arrays) == len(item.outputs)
    for name, array in zip(item.outputs, answer.arrays, strict=True):
        np.testing.assert_array_equal(array, expected[name])


async def play(callers: list[Caller], max_queue_rows: int, delay: float) -> None:
    fake = FakeEngine(function=engine, outputs=OUTPUTS)
    options = BatcherOptions(max_batch_size=4, max_queue_rows=max_queue_rows, max_delay=delay)
    batcher = Batcher([Instance(engine=fake, thread=engine_thread("m"))], name="m", options=options)
    batcher.start()

    async def one(number: int, caller: Caller) -> None:
        for _ in range(caller.pause):
            await asyncio.sleep(0)
        item = request(number, caller)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + caller.patience * 1e-4 if caller.fate == "deadline" else None
        task = asyncio.ensure_future(batcher.infer(item, deadline=deadline))
        if caller.fate == "cancels":
            for _ in range(caller.patience):
                await asyncio.sleep(0)
            task.cancel()
        try:
            check(item, await task)
            assert caller.fate != "poison"
        except QueueFullError:
            pass
        except DeadlineExceededError:
            assert caller.fate == "deadline"
        except EngineRunError:
            assert caller.fate == "poison"
        except asyncio.CancelledError:
            assert caller.fate == "cancels"

    async with asyncio.timeout(30):
        await asyncio.gather(*(one(number, caller) for number, caller in enumerate(callers)))
        assert (batcher.waiting_rows, batcher.waiting_requests, batcher.waiting_bytes) == (0, 0, 0)
        assert not batcher._waiting.any_satisfied
        assert batcher._waiting.first_deadline == math.inf
        await batcher.drain()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    callers=st.lists(CALLERS, min_size=1, max_size=16),
    max_queue_rows=st.integers(4, 20),
    delay=st.sampled_from([0.0, 0.0, 0.001]),
)
def test_every_caller_gets_its_own(callers: list[Caller], max_queue_rows: int, delay: float) -> None:
    asyncio.run(play(callers, max_queue_rows, delay))
