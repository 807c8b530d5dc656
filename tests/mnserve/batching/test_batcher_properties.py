"""Each caller gets its own rows or the error that belongs to it, and no request is lost."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnserve.batching.batcher import Batcher
from mnserve.batching.options import BatcherOptions
from mnserve.batching.queue_policy import QueuePolicy, QueueRules
from mnserve.batching.request_limits import RequestLimits
from mnserve.batching.request_queue import RequestQueue
from mnserve.codec.decoding import InferenceWork
from mnserve.engines.base import TensorSpec
from mnserve.engines.fake import FakeEngine
from mnserve.errors import DeadlineExceededError, EngineRunError, QueueFullError, QueueTimeoutError
from mnserve.execution.engine_thread import EngineThread
from mnserve.execution.instances import Instance
from mnserve.execution.request import WaitingRequest
from mnserve.execution.results import InferenceResult

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
    fate: Literal["waits", "cancels", "deadline", "waits briefly", "poison"]
    pause: int
    """Turns of the event loop before the request is sent."""
    turns: int
    """Turns before it is cancelled, tenths of a millisecond before its deadline or its time in the queue is over."""
    level: int
    """Priority level."""


CALLERS = st.builds(
    Caller,
    rows=st.integers(1, 4),
    width=st.integers(1, 3),
    fate=st.sampled_from(["waits", "waits", "waits", "cancels", "deadline", "waits briefly", "poison"]),
    pause=st.integers(0, 6),
    turns=st.integers(0, 8),
    level=st.integers(1, 3),
)
RULES = QueueRules(
    levels=3,
    default_level=2,
    default_policy=QueuePolicy(allow_override=True),
    policies={
        2: QueuePolicy(allow_override=True, max_requests=4),
        3: QueuePolicy(allow_override=True, timeout=0.0005, delay_late=True),
    },
)
"""Level 1 refuses late requests, level 2 holds few besides, level 3 puts late requests behind the others."""


class Engines:
    """Instances that share one record of whose rows they answered."""

    def __init__(self, count: int) -> None:
        self.answered: Counter[int] = Counter()
        """In how many runs that did not fail the rows of each caller were."""
        self._lock = threading.Lock()
        self.instances = [
            Instance(engine=FakeEngine(function=self._run, outputs=OUTPUTS), thread=EngineThread("m"))
            for _ in range(count)
        ]

    def _run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        x = feeds["x"]
        assert 1 <= len(x) <= 4
        if (x == POISON).any():
            raise EngineRunError("poison")
        with self._lock:
            self.answered.update(set((x[:, 0] // 1000).astype(int).tolist()))
        return {"y": x * 2, "z": x.sum(axis=1)}


class CheckedQueue(RequestQueue):
    """Checks every batch that is taken from the queue."""

    def __init__(self, options: BatcherOptions) -> None:
        super().__init__(options, name="m")
        self._waiting: dict[int, WaitingRequest] = {}
        self._taken: set[int] = set()
        self._last: dict[tuple[int, Hashable], int] = {}

    def add(self, *args: Any, **fields: Any) -> WaitingRequest:
        request = super().add(*args, **fields)
        self._waiting[request.number] = request
        return request

    def take_batch(self, **fields: Any) -> list[WaitingRequest]:
        batch = super().take_batch(**fields)
        left = [request for request in self._waiting.values() if request in self]
        for request in batch:
            assert request.number not in self._taken  # no request runs twice
            self._taken.add(request.number)
            if not request.rank[1]:  # those of a level and shape go in order, unless they are late
                kind = (request.rank[0], request.bucket)
                assert self._last.get(kind, -1) < request.number
                self._last[kind] = request.number
        if batch:
            assert len({request.bucket for request in batch}) == 1
            assert all(batch[0].rank <= other.rank for other in left)
            same = [other.rank for other in left if other.bucket == batch[0].bucket]
            assert max(request.rank for request in batch) <= min(same, default=(99, True))
        return batch


def request(number: int, caller: Caller) -> InferenceWork:
    """Every element tells whose it is and where it belongs."""
    x = 1000.0 * number + 1 + np.arange(caller.rows * caller.width, dtype=np.float32).reshape(caller.rows, caller.width)
    if caller.fate == "poison":
        x[-1, -1] = POISON
    return InferenceWork(feeds={"x": x}, rows=caller.rows, outputs=("z", "y") if number % 2 else ("y",))


def check(sent: InferenceWork, answer: InferenceResult) -> None:
    expected = {"y": sent.feeds["x"] * 2, "z": sent.feeds["x"].sum(axis=1)}
    assert len(answer.arrays) == len(sent.outputs)
    for name, array in zip(sent.outputs, answer.arrays, strict=True):
        np.testing.assert_array_equal(array, expected[name])


async def play(callers: list[Caller], options: BatcherOptions, instances: int) -> None:
    engines = Engines(instances)
    queue = CheckedQueue(options)
    batcher = Batcher(engines.instances, name="m", options=options, queue=queue)
    batcher.start()

    async def one(number: int, caller: Caller) -> None:
        for _ in range(caller.pause):
            await asyncio.sleep(0)
        work = request(number, caller)
        loop = asyncio.get_running_loop()
        seconds = caller.turns * 1e-4
        deadline = loop.time() + seconds if caller.fate == "deadline" else None
        asked_wait = seconds if caller.fate == "waits briefly" else 0.0
        limits = RequestLimits.under(RULES, caller.level, deadline=deadline, asked_wait=asked_wait)
        task = asyncio.ensure_future(batcher.infer(work, limits))
        if caller.fate == "cancels":
            for _ in range(caller.turns):
                await asyncio.sleep(0)
            task.cancel()
        answered = False
        try:
            check(work, await task)
            answered = True
            assert caller.fate != "poison"
        except QueueFullError:
            pass
        except QueueTimeoutError:
            assert caller.fate == "waits briefly"
            assert caller.level < 3  # level 3 waits on
            assert engines.answered[number] == 0
        except DeadlineExceededError:
            assert caller.fate == "deadline"
        except EngineRunError:
            assert caller.fate == "poison"
        except asyncio.CancelledError:
            assert caller.fate == "cancels"
        if caller.fate in ("waits", "waits briefly"):
            assert engines.answered[number] == answered

    async with asyncio.timeout(30):
        await asyncio.gather(*(one(number, caller) for number, caller in enumerate(callers)))
        assert (batcher.waiting_rows, batcher.waiting_requests, batcher.waiting_bytes) == (0, 0, 0)
        assert not queue.has_full_batch
        assert (queue.first_deadline, queue.delay_until) == (math.inf, math.inf)
        await batcher.drain()
        assert batcher.idle
    assert all(count == 1 for count in engines.answered.values())


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    callers=st.lists(CALLERS, min_size=1, max_size=16),
    max_queue_rows=st.integers(4, 20),
    delay=st.sampled_from([None, None, 0.0, 0.001]),
    preferred=st.sampled_from([(), (), (2,), (2, 4)]),
    instances=st.integers(1, 3),
)
def test_every_caller_gets_its_own_rows(
    callers: list[Caller], max_queue_rows: int, delay: float | None, preferred: tuple[int, ...], instances: int
) -> None:
    options = BatcherOptions(
        max_batch_size=4, max_queue_rows=max_queue_rows, max_delay=delay, preferred_sizes=preferred, queue=RULES
    )
    asyncio.run(play(callers, options, instances))
