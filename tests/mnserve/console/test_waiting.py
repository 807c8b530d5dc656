"""Predictions end soon after their client has left, or the server has begun to stop."""

from __future__ import annotations

import concurrent.futures
import threading
import time

import pytest

from mnserve.console.waiting import Waiting
from mnserve.errors import StoppingError
from mnserve.http.errors import ClientLeftError


def test_a_thread_goes_on_while_somebody_waits() -> None:
    Waiting(lambda: False).check()


def test_a_thread_ends_once_the_server_is_stopping() -> None:
    with pytest.raises(StoppingError, match="is stopping"):
        Waiting(lambda: True).check()


def test_a_thread_ends_once_its_client_has_left() -> None:
    waiting = Waiting(lambda: False)
    waiting.end()
    with pytest.raises(ClientLeftError):
        waiting.check()


@pytest.mark.parametrize("before", [True, False])
def test_a_request_is_given_up_with_its_client(before: bool) -> None:
    waiting, future = Waiting(lambda: False), concurrent.futures.Future[int]()
    if before:
        waiting.end()
    else:
        threading.Timer(0.2, waiting.end).start()
    started = time.monotonic()
    with pytest.raises(ClientLeftError):
        waiting.result(future, 60)
    assert future.cancelled()
    assert time.monotonic() - started < 30


def test_a_result_has_its_time() -> None:
    waiting, future = Waiting(lambda: False), concurrent.futures.Future[int]()
    with pytest.raises(TimeoutError):
        waiting.result(future, 0.01)
    assert future.cancelled()
    answered = concurrent.futures.Future[int]()
    answered.set_result(3)
    assert waiting.result(answered, 1) == 3
