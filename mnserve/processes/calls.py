"""Calls from one process to another, over their control messages.

A ``call`` has an id, a method and its arguments; the ``reply`` to it has the id, and a value of JSON or an error. A
``cancel`` with the id tells that nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from itertools import count
from typing import Any, Protocol, TypeAlias

from mnserve.channel.wire_errors import error_fields, error_from_fields
from mnserve.processes.control import Message

Arguments: TypeAlias = Mapping[str, Any]
Method: TypeAlias = Callable[[str, Arguments], Awaitable[Any]]
"""Answers a call: the name of its method, and its arguments."""


class Send(Protocol):
    """Sends a control message."""

    def __call__(self, kind: str, **fields: Any) -> None: ...


class Caller:
    """Calls the methods of another process.

    Args:
        send: Sends a control message to it.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._end: Exception | None = None

    async def call(self, method: str, arguments: Arguments) -> Any:
        """Calls a method.

        Returns:
            What it returned, values of JSON.

        Raises:
            MnServeError: Raised by the method.
            Exception: The reason of :meth:`end`.
        """
        if self._end is not None:
            raise self._end
        number = next(self._ids)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send("call", id=number, method=method, arguments=dict(arguments))
        try:
            return await future
        except asyncio.CancelledError:
            self._send("cancel", id=number)
            raise
        finally:
            del self._waiting[number]

    def reply(self, message: Message) -> None:
        """Takes a reply."""
        future = self._waiting.get(message["id"])
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(error_from_fields(message["error"]))
        else:
            future.set_result(message["value"])

    def end(self, error: Exception) -> None:
        """Ends all calls with an error, now and later: the other process is gone."""
        self._end = error
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


class Answerer:
    """Answers the calls of another process, side by side.

    Args:
        method: Answers each of them.
        send: Sends a control message to it.
    """

    def __init__(self, method: Method, send: Send) -> None:
        self._method = method
        self._send = send
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, message: Message) -> bool:
        """Begins to answer a call, or ends one that was cancelled; False for any other message."""
        number = message.get("id", 0)
        if message["kind"] == "call":
            task = self._tasks[number] = asyncio.get_running_loop().create_task(self._answer(message))
            task.add_done_callback(lambda _: self._tasks.pop(number, None))
        elif message["kind"] != "cancel":
            return False
        elif number in self._tasks:
            self._tasks[number].cancel()
        return True

    async def _answer(self, message: Message) -> None:
        try:
            value = await self._method(message["method"], message["arguments"])
        except Exception as error:  # noqa: BLE001 (goes to the caller)
            self._send("reply", id=message["id"], error=error_fields(error))
        else:
            self._send("reply", id=message["id"], value=value)


def taken(future: asyncio.Future[Any]) -> None:
    """Takes the error of a future that nobody may wait for any more."""
    if not future.cancelled():
        future.exception()


async def outcomes_of(calls: Iterable[Coroutine[Any, Any, Any]], timeout: float) -> list[Any]:
    """Waits for calls, for some seconds at most; lists their results and their errors."""

    async def outcome(call: Coroutine[Any, Any, Any]) -> Any:
        async with asyncio.timeout(timeout):
            return await call

    return await asyncio.gather(*map(outcome, calls), return_exceptions=True)
