"""The thread of an engine."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mnserve.engine_thread import EngineThread


async def test_everything_happens_in_one_thread_in_order() -> None:
    thread = EngineThread("m")
    done: list[int] = []
    thread.post(lambda: done.append(1))
    first = await thread.call(threading.current_thread)
    assert done == [1]
    assert first is await thread.call(threading.current_thread)
    assert first is not threading.current_thread()
    assert first.name == "engine-m"
    assert first.daemon  # one that hangs does not keep the process from exiting
    thread.close()
    first.join(20)
    assert not first.is_alive()


async def test_errors_go_to_the_caller_and_the_thread_goes_on() -> None:
    thread = EngineThread("m")

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await thread.call(fail)
    assert await thread.call(lambda: 2) == 2
    thread.close()


async def test_a_caller_that_leaves_disturbs_nothing() -> None:
    thread, gate = EngineThread("m"), threading.Event()
    task = asyncio.ensure_future(thread.call(gate.wait))
    await asyncio.sleep(0.01)
    task.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await thread.call(lambda: 3) == 3
    thread.close()
