"""Turns to receive the messages of small calls, so that all that arrive hold little memory, whoever sends them.

gRPC receives a message of up to ``--max-message-bytes`` whole before it hands it over, and has one limit for all
methods. A call whose message is not asked for holds a part of it only; flow control stops the rest.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from mnserve.errors import TooManyCallsError

AT_A_TIME: Final = 4
"""Messages that are received at a time."""
OF_CONNECTION: Final = 2
"""Messages of one connection among them."""
_TICK: Final = 0.1
_TICKS: Final = 50
"""Ticks in which a message has to be there."""
_TICKS_IN_LINE: Final = 2
"""Ticks in which it has to be there while others wait. One alone could pass while this process stands still."""


class MessageTurns:
    """Lets few messages arrive at a time. A message that takes its time gives way to those that wait."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._of_connection: defaultdict[str, _Connection] = defaultdict(_Connection)
        self._waiting = 0

    async def receive(self, read: Callable[[], Awaitable[Any]], connection: str) -> Any:
        """Waits for the turn of a message, and receives it.

        Args:
            read: Receives the message; called once it has its turn.
            connection: Peer of the call, with its port.

        Raises:
            TooManyCallsError: The message is not there in time.
        """
        async with self._turn(connection):
            reading = _started(read)
            for tick in range(1, _TICKS + 1):
                await asyncio.wait((reading,), timeout=_TICK)
                if reading.done():
                    return reading.result()
                if self._waiting and tick >= _TICKS_IN_LINE:
                    break
            raise TooManyCallsError(
                f"the message was not there after {tick * _TICK:.1f} s; send it at once, or try again later"
            )

    @asynccontextmanager
    async def _turn(self, connection: str) -> AsyncIterator[None]:
        mine = self._of_connection[connection]
        mine.calls += 1
        self._waiting += 1
        waits = True
        try:
            async with mine.turns, self._turns:
                self._waiting -= 1
                waits = False
                yield
        finally:
            self._waiting -= waits
            mine.calls -= 1
            if not mine.calls:
                del self._of_connection[connection]


class _Connection:
    """Turns of one connection, and its calls that have one or wait for it."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(OF_CONNECTION)
        self.calls = 0


async def received(read: Callable[[], Awaitable[Any]], seconds: float) -> Any:
    """Receives a message of a stream.

    Args:
        read: Receives the message.
        seconds: Time in which it has to be there.

    Raises:
        TooManyCallsError: It is not.
    """
    reading = _started(read)
    await asyncio.wait((reading,), timeout=seconds)
    if not reading.done():
        raise TooManyCallsError(f"the stream brought nothing for {seconds:g} s; open it again once it is needed")
    return reading.result()


def _started(read: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
    """Starts to receive a message, until the call ends: gRPC never frees one whose reader was cancelled."""
    reading = asyncio.ensure_future(read())
    reading.add_done_callback(_look_at_error)
    return reading


def _look_at_error(reading: asyncio.Future[Any]) -> None:
    """asyncio logs errors that nobody looked at."""
    if not reading.cancelled():
        reading.exception()
