"""Whether anybody waits for a prediction: a thread cannot be ended from outside, so it asks between two steps."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

from mnserve.errors import StoppingError
from mnserve.http.errors import ClientLeftError

Value = TypeVar("Value")


class Waiting:
    """Tells the thread of a prediction to go on or to end.

    Args:
        is_stopping: Returns True once the server admits no new requests, so that the rest would be refused anyway.
    """

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self._is_stopping = is_stopping
        self._ended = threading.Event()
        self._awaited: concurrent.futures.Future[object] | None = None

    def end(self) -> None:
        """Notes that nobody waits any more, and gives up the request that the thread waits for."""
        self._ended.set()
        if (awaited := self._awaited) is not None:  # read once: the thread may be done with it
            awaited.cancel()

    def check(self) -> None:
        """Checks that the thread has a reason to go on.

        Raises:
            ClientLeftError: Nobody waits.
            StoppingError: The server is stopping.
        """
        if self._ended.is_set():
            raise ClientLeftError
        if self._is_stopping():
            raise StoppingError("the server is stopping and takes no new requests; try another server")

    def result(self, future: concurrent.futures.Future[Value], seconds: float) -> Value:
        """Waits for a result, as long as somebody waits for the prediction.

        Args:
            future: Has the result.
            seconds: Most time to wait.

        Raises:
            ClientLeftError: Nobody waits.
            TimeoutError: There is no result in time; the future is cancelled.
        """
        self._awaited = future  # type: ignore[assignment]
        try:
            if self._ended.is_set():  # since before the line above
                future.cancel()
            return future.result(seconds)
        except concurrent.futures.CancelledError:
            raise ClientLeftError from None
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise
        finally:
            self._awaited = None
