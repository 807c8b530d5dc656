"""Thread of an engine."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mnserve.execution.engine_thread import EngineThread


async def test_calls_run_in_one_thread_in_order() -> None:
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


@pytest.mark.parametrize("late", [False, True], ids=["while it runs", "when it is done"])
async def test_results_of_cancelled_calls_are_cleaned_up_in_the_thread(late: bool) -> None:
    thread, begun, gate = EngineThread("m"), threading.Event(), threading.Event()
    put_away: list[tuple[object, threading.Thread]] = []

    def work() -> int:
        begun.set()
        gate.wait()
        return 5

    task = asyncio.ensure_future(
        thread.call(work, unwanted=lambda result: put_away.append((result, threading.current_thread())))
    )
    await asyncio.sleep(0)
    assert begun.wait(20)
    if late:  # the loop has no chance to hear of it in between
        gate.set()
        done = threading.Event()
        thread.post(done.set)
        assert done.wait(20)
    task.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    own = await thread.call(threading.current_thread)
    assert put_away == [(5, own)]
    thread.close()


async def test_a_thread_goes_on_after_a_failed_cleanup(caplog: pytest.LogCaptureFixture) -> None:
    thread, gate = EngineThread("m"), threading.Event()
    for outcome in (5, None):
        gate.clear()

        def work(outcome: int | None = outcome) -> int:
            gate.wait()
            if outcome is None:
                raise ValueError("no")
            return outcome

        task = asyncio.ensure_future(thread.call(work, unwanted=lambda result: 1 // (result - 5)))
        await asyncio.sleep(0.01)
        task.cancel()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.wait_for(thread.call(lambda: 3), 20) == 3
    assert caplog.text.count("ZeroDivisionError: ") == 1
    thread.close()
