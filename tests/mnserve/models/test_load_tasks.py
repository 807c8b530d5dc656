"""Loads whose caller leaves, and loads that are under way while the server stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mnserve.engines.base import EngineOptions
from mnserve.engines.fake import FakeEngine
from mnserve.errors import LoadFailedError, ModelNotReadyError, StoppingError
from mnserve.models.load_tasks import LoadTasks
from mnserve.models.loading import LoadOptions
from mnserve.models.registry import Models

WriteModel = Callable[..., Path]


class SlowLoads:
    """Engines whose loading takes as long as somebody wants.

    Args:
        open_first: How many of them are loaded without any time.
    """

    def __init__(self, open_first: int = 0) -> None:
        self._free = open_first
        self.gate = threading.Event()
        self.engines: list[FakeEngine] = []
        self.begun = 0
        self.at_once = 0
        """Most loads at the same time."""
        self._now = 0

    def __call__(self, path: Path, options: EngineOptions) -> FakeEngine:
        self.begun += 1
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        if self.begun > self._free:
            self.gate.wait()
        self._now -= 1
        self.engines.append(FakeEngine())
        return self.engines[-1]

    def models(self, repository: Path) -> Models:
        return Models(repository, LoadOptions(warm_up=False, factory=self))


@pytest.fixture
def slow() -> Iterator[SlowLoads]:
    found = SlowLoads()
    yield found
    found.gate.set()


def threads(name: str = "m") -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"engine-{name}"]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def in_time(call: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(call, 20)


async def leave(task: asyncio.Future[None]) -> None:
    """Cancels a call, as gRPC does where its caller has given up."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_load_whose_caller_left_takes_effect(repository: Path, double_model: WriteModel, slow: Any) -> None:
    double_model("m")
    models = slow.models(repository)
    await models.load_all(())
    call = asyncio.ensure_future(models.load("m"))
    await until(lambda: slow.begun)
    await leave(call)
    assert not models.is_ready("m")
    slow.gate.set()
    await until(lambda: models.is_ready("m"))
    assert not slow.engines[0].closed
    assert await models.drain(20)
    assert slow.engines[0].closed
    await until(lambda: not threads())


async def test_callers_who_leave_and_ask_again_do_not_pile_loads_up(
    repository: Path, double_model: WriteModel, slow: Any
) -> None:
    double_model("m")
    models = slow.models(repository)
    await models.load_all(())
    for _ in range(5):
        call = asyncio.ensure_future(models.load("m"))
        await until(lambda: slow.begun)
        await asyncio.sleep(0.01)
        await leave(call)
    assert (slow.begun, len(threads())) == (1, 1)
    last = asyncio.ensure_future(models.load("m"))
    await asyncio.sleep(0.01)
    slow.gate.set()
    await in_time(last)
    assert (slow.begun, slow.at_once) == (2, 1), "those who left before their turn began nothing"
    await until(lambda: slow.engines[0].closed)
    assert not slow.engines[1].closed
    await in_time(models.unload("m"))
    assert await models.drain(20)
    await until(lambda: not threads())
    assert slow.engines[1].closed


@pytest.mark.parametrize("served", [False, True])
async def test_a_server_that_stops_waits_for_no_load(
    repository: Path, double_model: WriteModel, slow: Any, served: bool
) -> None:
    double_model("m", config="instance_group { count: 2 }")
    slow._free = 2 * served + 1  # the second instance is the one that takes long
    models = slow.models(repository)
    await models.load_all(["m"] if served else ())
    calls = [asyncio.ensure_future(models.load("m")) for _ in range(2)]
    await until(lambda: slow.begun == 2 * served + 2)
    models.stop()
    async with asyncio.timeout(20):
        for call in calls:
            with pytest.raises(StoppingError, match=r"model 'm' .* as the server is stopping"):
                await call
        assert await in_time(models.drain(600))
    assert all(engine.closed for engine in slow.engines), "what was served, and the first instance of the load"
    slow.gate.set()
    await until(lambda: not threads())
    assert len(slow.engines) == 2 * served + 2
    assert slow.engines[-1].closed, "nobody wants what was loaded too late"


async def test_a_drain_alone_abandons_loads_too(repository: Path, double_model: WriteModel, slow: Any) -> None:
    double_model("m")
    models = slow.models(repository)
    await models.load_all(())
    call = asyncio.ensure_future(models.load("m"))
    await until(lambda: slow.begun)
    assert await in_time(models.drain(600))
    with pytest.raises(StoppingError):
        await in_time(call)
    with pytest.raises(StoppingError):
        await in_time(models.load("m"))
    slow.gate.set()
    await until(lambda: not threads())
    assert slow.engines[0].closed


async def test_a_start_that_is_cancelled_leaves_nothing_open(
    repository: Path, double_model: WriteModel, slow: Any
) -> None:
    double_model("a")
    double_model("m", config="version_policy { all {} }")
    double_model("m", version=2)
    slow._free = 2  # model a, and the first version of m
    models = slow.models(repository)
    start = asyncio.ensure_future(models.load_all())
    await until(lambda: slow.begun == 3)
    await leave(start)
    models.stop()
    assert await in_time(models.drain(600))
    assert [engine.closed for engine in slow.engines] == [True, True]
    slow.gate.set()
    await until(lambda: not threads() and not threads("a"))
    assert [engine.closed for engine in slow.engines] == [True] * 3


async def test_the_reason_of_a_load_whose_caller_left_is_kept(
    repository: Path, double_model: WriteModel, slow: Any, caplog: pytest.LogCaptureFixture
) -> None:
    double_model("m", config='input { name: "q" data_type: TYPE_FP32 dims: 4 }')
    models = slow.models(repository)
    await models.load_all(())
    call = asyncio.ensure_future(models.load("m"))
    await until(lambda: slow.begun)
    await leave(call)
    slow.gate.set()
    await until(lambda: "input 'q'" in caplog.text)
    with pytest.raises(ModelNotReadyError, match="input 'q'"):
        models.find("m")
    with pytest.raises(LoadFailedError, match="input 'q'"):
        await models.load("m")
    assert await models.drain(20)
    assert "Traceback" not in caplog.text
    assert "never retrieved" not in caplog.text


async def test_an_unexpected_error_of_a_load_without_a_caller_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    loads, lock, gate = LoadTasks(), asyncio.Lock(), asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise ValueError("ours")

    call = asyncio.ensure_future(loads.run("m", lock, fail))
    await asyncio.sleep(0.01)
    await leave(call)
    gate.set()
    await loads.ended(20)
    await until(lambda: not lock.locked())
    assert "model 'm': loading it failed" in caplog.text
    assert "ValueError: ours" in caplog.text
    with pytest.raises(ValueError, match="ours"):
        await in_time(loads.run("m", lock, fail))
    assert not lock.locked()
