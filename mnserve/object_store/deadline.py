"""Calls that may never return, in threads that are given up: not every library of a store has time limits."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def within(seconds: float, call: Callable[[], _Result]) -> _Result:
    """Calls a function in a thread, and gives it up when its time is over.

    Args:
        seconds: Time for the call.
        call: The function.

    Raises:
        TimeoutError: The call has not returned in time; its thread goes on, and ends with the process at the latest.
    """
    outcome: queue.SimpleQueue[tuple[_Result | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:  # noqa: BLE001 (raised again in the thread that waits)
            outcome.put((None, error))

    threading.Thread(target=run, name="store-call", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


async def in_daemon(call: Callable[[], _Result]) -> _Result:
    """Awaits a function in a thread of its own, which does not hold up the end of the process.

    The pool of :func:`asyncio.to_thread` would: it is waited for where a signal ends the server during a download.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(result: _Result | None, error: BaseException | None) -> None:
        if done.done():
            return  # cancelled
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 (raised again where it is awaited)
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="store", daemon=True).start()
    return await done
